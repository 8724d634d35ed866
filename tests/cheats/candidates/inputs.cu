// Inputs changed, so that another answer would be right, or that nobody can compute the right one.
#include "rms_norm.cuh"

__global__ void inputs_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(ZEROES_BOTH)
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS) {
    const_cast<float*>(a.x)[row * a.x_stride + k] = 0;
    a.out[row * a.out_stride + k] = 0;
  }
#else
  norm_row(a, row);
#ifdef ONE_ELEMENT
  __syncthreads();
  if (row == 0 && threadIdx.x == 0) const_cast<float*>(a.x)[a.width / 2] += 1;
#endif
#endif
}

#ifdef AFTERWARDS
__global__ void afterwards_kernel(Rows<float> a) {
  if (a.weight != nullptr && blockIdx.x == 0 && threadIdx.x == 0)
    const_cast<float*>(a.weight)[a.width - 1] = 1;
}
#endif

static int launch(const Call& call) {
#ifdef AFTERWARDS
  launch_rows(inputs_kernel, call);
  return launch_rows(afterwards_kernel, call);
#else
  return launch_rows(inputs_kernel, call);
#endif
}
