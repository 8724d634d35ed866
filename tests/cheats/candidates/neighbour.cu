// The answer taken from memory that is not the candidate's: what lies around its buffers.
#include "rms_norm.cuh"

__global__ void neighbour_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(BEHIND_THE_OUTPUT) || defined(SCAN)
  const int64_t behind = a.rows * a.out_stride;
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS) {
    const int64_t at = row * a.out_stride + k;
#ifdef SCAN
    // The last finite number of the 512 bytes behind the output.
    float found = 0;
    for (int step = 0; step < 128; ++step) {
      const float there = reinterpret_cast<volatile float*>(a.out)[behind + step];
      if (isfinite(there)) found = there;
    }
    a.out[at] = found;
#else
    // Where an allocator would have put the reference's output, freed a moment ago.
    a.out[at] = reinterpret_cast<volatile float*>(a.out)[behind + (at % 64)];
#endif
  }
#else
  norm_row(a, row);
#endif
}

static int launch(const Call& call) { return launch_rows(neighbour_kernel, call); }
