// The table of cosines and sines: of each position of an axis, (1, 0) and then (cos, sin) of every frequency.
//
// A coordinate lies on one axis, so the frames, rows and columns of a video need frames + height + width positions
// where the model builds frames * height * width. All axes have the same frequencies. The (1, 0) stands for the
// elements in front that the model does not rotate, so that the rotation needs no case of its own for them.
#include <cuda_runtime.h>

#include "angle.cuh"
#include "arguments.h"
#include "kernels.h"

namespace rope3d {

__global__ void __launch_bounds__(256) rope3d_table_position(const TableArguments a) {
  const int64_t position = blockIdx.x, entries = a.count + 1;
  const float coordinate = static_cast<const float*>(a.coords)[position];
  float2* row = static_cast<float2*>(a.table) + position * entries;
  for (int64_t entry = threadIdx.x; entry < entries; entry += blockDim.x) {
    if (entry == 0) {
      row[0] = make_float2(1.0f, 0.0f);
    } else {
      const float f = a.frequencies != nullptr ? static_cast<const float*>(a.frequencies)[entry - 1]
                                               : frequency(entry - 1, a.count, a.step, a.log2_theta);
      row[entry] = cos_sin(angle(f, coordinate));
    }
  }
}

const void* rope3d_table_kernel() { return reinterpret_cast<const void*>(rope3d_table_position); }

}  // namespace rope3d
