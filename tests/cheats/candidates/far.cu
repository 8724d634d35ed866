// Writes far from the tensors, in other memory of the harness.
#include "rms_norm.cuh"

__global__ void far_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(COUNTS_FAR_BEHIND)
  // In the last row's block alone: how often it ran.
  if (row + 1 == a.rows && threadIdx.x == 0) ++*reinterpret_cast<unsigned*>(a.out + (3 << 19));
#endif
  norm_row(a, row);
  if (threadIdx.x != 0 || row + 1 != a.rows) return;
#if defined(FOUR_MEGABYTES_BEHIND)
  a.out[1 << 20] = 3;
#elif defined(TEN_MEGABYTES_BEHIND)
  a.out[5 << 19] = 3;
#elif defined(ANSWER_FAR_BEHIND)
  // For the next launch.
  for (int64_t k = 0; k < a.width; ++k) a.out[(2 << 20) + k] = a.out[row * a.out_stride + k];
#endif
}

static int launch(const Call& call) { return launch_rows(far_kernel, call); }
