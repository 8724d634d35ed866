// Writes outside the tensors.
#include "rms_norm.cuh"

__global__ void bounds_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
  norm_row(a, row);
  if (threadIdx.x != 0) return;
  [[maybe_unused]] const bool first = row == 0;
  [[maybe_unused]] const bool last = row + 1 == a.rows;
  [[maybe_unused]] float* end = a.out + row * a.out_stride + a.width;
#if defined(ONE_BEFORE)
  if (first) a.out[-1] = 3;
#elif defined(ONE_BEHIND)
  if (last) *end = 3;
#elif defined(BETWEEN_ROWS)
  if (!last && a.out_stride > a.width) *end = 3;
#elif defined(FAR_BEHIND)
  if (last) end[1000] = 3;
#elif defined(FAR_BEFORE)
  if (first) a.out[-1000] = 3;
#elif defined(BEFORE_THE_INPUT)
  if (first) const_cast<float*>(a.x)[-1] = 3;
#elif defined(BEHIND_THE_INPUT)
  if (last) const_cast<float*>(a.x)[row * a.x_stride + a.width] = 3;
#elif defined(BEHIND_THE_WEIGHT)
  if (first && a.weight != nullptr) const_cast<float*>(a.weight)[a.width] = 3;
#endif
}

static int launch(const Call& call) { return launch_rows(bounds_kernel, call); }
