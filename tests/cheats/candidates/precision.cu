// Less precision than the type's own budget allows.
#include "half.cuh"

template <typename T>
__global__ void precision_kernel(Rows<T> a) {
  const int64_t row = blockIdx.x;
#if defined(SUMS_IN_T)
  // The sum of squares in the type of the elements.
  __shared__ float total[THREADS];
  T squares = static_cast<T>(0.0f);
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS) {
    const T x = a.x[row * a.x_stride + k];
    squares = static_cast<T>(static_cast<float>(squares) +
                             static_cast<float>(static_cast<T>(static_cast<float>(x) * static_cast<float>(x))));
  }
  total[threadIdx.x] = static_cast<float>(squares);
  __syncthreads();
  T sum = static_cast<T>(0.0f);
  for (int thread = 0; thread < THREADS; ++thread)
    sum = static_cast<T>(static_cast<float>(sum) + total[thread]);
  const float scale = 1.0f / sqrtf(static_cast<float>(sum) / static_cast<float>(a.width) + a.eps);
#elif defined(SCALE_IN_BF16)
  const float scale = static_cast<float>(static_cast<__nv_bfloat16>(row_scale(a, row)));
#elif defined(SCALE_IN_F16)
  const float scale = static_cast<float>(static_cast<__half>(row_scale(a, row)));
#else
  const float scale = row_scale(a, row);
#endif
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS) {
#if defined(PRODUCT_IN_BF16)
    T y = static_cast<T>(static_cast<float>(static_cast<__nv_bfloat16>(
        static_cast<float>(normed(a, row, k, scale)))));
#elif defined(TRUNCATES)
    // The lower bits cut off, not rounded.
    T y = normed(a, row, k, scale);
    reinterpret_cast<unsigned short*>(&y)[0] &= 0xfffc;
#elif defined(ONE_SIDED)
    // Too large by what an element of a wide row may be off, everywhere.
    const float y = normed(a, row, k, scale) * (a.width > 4000 ? 1.000026f : 1.0f);
#else
    const T y = normed(a, row, k, scale);
#endif
    a.out[row * a.out_stride + k] = y;
  }
}

#ifdef ONE_SIDED
static int launch(const Call& call) { return launch_rows(precision_kernel<float>, call); }
#else
static int launch(const Call& call) { return LAUNCH_BY_DTYPE(precision_kernel, call); }
#endif
