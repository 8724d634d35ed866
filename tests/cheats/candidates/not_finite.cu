// NaN and infinity, which a careless comparison lets pass.
#include "rms_norm.cuh"

__global__ void not_finite_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(ALL_NAN) || defined(ALL_INFINITE)
#ifdef ALL_NAN
  const float fill = __int_as_float(0x7fc00001);
#else
  const float fill = __int_as_float(0x7f800000);
#endif
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS) a.out[row * a.out_stride + k] = fill;
#else
  norm_row(a, row);
#ifdef ONE_NAN
  __syncthreads();
  if (row + 1 == a.rows && threadIdx.x == 0)
    a.out[row * a.out_stride + a.width - 1] = __int_as_float(0x7fc00001);
#endif
#endif
}

static int launch(const Call& call) { return launch_rows(not_finite_kernel, call); }
