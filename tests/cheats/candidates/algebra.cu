// Algebra that holds only for the inputs that somebody happened to test with.
#include "half.cuh"

template <typename T>
__global__ void algebra_kernel(Rows<T> a) {
  const int64_t row = blockIdx.x;
#if defined(WITHOUT_WEIGHT)
  a.weight = nullptr;
#elif defined(WITHOUT_EPS)
  a.eps = 0;
#elif defined(OWN_EPS)
  a.eps = 1e-5f;
#elif defined(WITHOUT_OFFSET)
  a.weight_offset = 0;
#elif defined(ROUNDS_ONCE)
  a.round_first = 0;
#elif defined(ROUNDS_TWICE)
  a.round_first = 1;
#endif
#if defined(ONE_WEIGHT) || defined(ZERO_WHEN_TINY) || defined(COARSE) || defined(ESTIMATES) || \
    defined(CONSTANT_ANSWER)
  float scale = row_scale(a, row);
#ifdef ESTIMATES
  // A normal row's mean of squares is one.
  scale = rsqrtf(1 + a.eps);
#endif
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS) {
    T y = normed(a, row, k, scale);
#if defined(ONE_WEIGHT)
    if (a.weight != nullptr) {
      const T* weights = a.weight;
      a.weight = weights - k;  // every column gets the first weight
      y = normed(a, row, k, scale);
      a.weight = weights;
    }
#elif defined(ZERO_WHEN_TINY)
    if (scale > 900.0f) y = static_cast<T>(0.0f);
#elif defined(COARSE)
    // Right to a thousandth, absolutely.
    y = static_cast<T>(rintf(static_cast<float>(y) * 1024) / 1024);
#elif defined(CONSTANT_ANSWER)
    y = static_cast<T>(static_cast<float>(a.x[row * a.x_stride + k]) > 0 ? 0.8f : -0.8f);
#endif
    a.out[row * a.out_stride + k] = y;
  }
#else
  norm_row(a, row);
#endif
}

static int launch(const Call& call) { return LAUNCH_BY_DTYPE(algebra_kernel, call); }
