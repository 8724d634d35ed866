// out = x / max(|x|, eps), a row a block. The row is read twice: the second time it comes from a cache.
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kThreads = 256;

template <int N>
struct alignas(4 * N) Pack {
  float v[N];
};

template <int N>
__global__ void __launch_bounds__(kThreads) l2_normalize_rows(float* out, const float* x, int64_t width, int64_t stride, float eps) {
  __shared__ float sums[kThreads / 32];
  const auto* from = reinterpret_cast<const Pack<N>*>(x + blockIdx.x * stride);
  auto* to = reinterpret_cast<Pack<N>*>(out + blockIdx.x * stride);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < width / N; i += kThreads) {
    const Pack<N> pack = from[i];
#pragma unroll
    for (int j = 0; j < N; ++j) sum += pack.v[j] * pack.v[j];
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) sum += sums[w];
  const float factor = 1.0f / fmaxf(sqrtf(sum), eps);
  for (int64_t i = threadIdx.x; i < width / N; i += kThreads) {
    Pack<N> pack = from[i];
#pragma unroll
    for (int j = 0; j < N; ++j) pack.v[j] *= factor;
    to[i] = pack;
  }
}

extern "C" int l2_normalize_launch(void* out, const void* x, int64_t rows, int64_t width, int64_t stride, float eps,
                                   cudaStream_t stream) {
  if (rows < 0 || width < 0 || stride < width || rows > INT32_MAX) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  const bool aligned = (reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(x)) % 16 == 0;
  const bool wide = aligned && width % 4 == 0 && stride % 4 == 0;
  const auto kernel = wide ? l2_normalize_rows<4> : l2_normalize_rows<1>;
  kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(x), width, stride,
                                                              eps);
  return cudaGetLastError();
}
