// NaN and infinity among the inputs, which are not to be seen in the output.
#include "rms_norm.cuh"

[[maybe_unused]] static __device__ bool is_finite(float x) {
  return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

__global__ void hides_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(SUM_WITHOUT_NAN)
  // The row's other elements look right.
  float squares = 0;
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS) {
    const float x = a.x[row * a.x_stride + k];
    if (is_finite(x)) squares += x * x;
  }
  const float scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(a.width) + a.eps);
#elif defined(BOUNDED_SCALE)
  const float scale = fminf(fmaxf(row_scale(a, row), 1e-6f), 1e6f);
#else
  const float scale = row_scale(a, row);
#endif
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS) {
    float y = normed(a, row, k, scale);
#if defined(ZERO_FOR_NAN)
    if (y != y) y = 0;
#elif defined(MAXIMUM_DROPS_NAN)
    y = fmaxf(y, -3e38f);
#elif defined(LARGEST_FOR_INFINITY)
    if (y == y && !is_finite(y)) y = copysignf(3.4e38f, y);
#elif defined(NAN_FOR_ZERO)
    // A row with infinity is zero elsewhere.
    if (scale == 0) y = __int_as_float(0x7fc00000);
#endif
    a.out[row * a.out_stride + k] = y;
  }
}

static int launch(const Call& call) { return launch_rows(hides_kernel, call); }
