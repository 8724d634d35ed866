// out = x - mean(x), a row a warp; rows lie `stride` elements apart. fp16, 8 elements in one access where every
// row begins on 16 bytes, and one at a time elsewhere and behind the last whole 8.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kThreads = 256;

struct alignas(16) Pack {
  __half v[8];
};

template <bool kWide>
__global__ void __launch_bounds__(kThreads) row_mean_kernel(__half* out, const __half* x, int64_t rows, int64_t width, int64_t stride) {
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const __half* from = x + row * stride;
  __half* to = out + row * stride;
  const int64_t whole = kWide ? width / 8 * 8 : 0;
  float sum = 0.0f;
  for (int64_t i = lane * 8; i < whole; i += 256) {
    const Pack pack = *reinterpret_cast<const Pack*>(from + i);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += __half2float(pack.v[j]);
  }
  for (int64_t i = whole + lane; i < width; i += 32) sum += __half2float(from[i]);
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  const float mean = sum / static_cast<float>(width);
  for (int64_t i = lane * 8; i < whole; i += 256) {
    Pack pack = *reinterpret_cast<const Pack*>(from + i);
#pragma unroll
    for (int j = 0; j < 8; ++j) pack.v[j] = __float2half_rn(__half2float(pack.v[j]) - mean);
    *reinterpret_cast<Pack*>(to + i) = pack;
  }
  for (int64_t i = whole + lane; i < width; i += 32) to[i] = __float2half_rn(__half2float(from[i]) - mean);
}

extern "C" int row_mean_launch(void* out, const void* x, int64_t rows, int64_t width, int64_t stride, cudaStream_t stream) {
  if (rows < 0 || width < 0 || stride < width) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  const int64_t blocks = (rows + kThreads / 32 - 1) / (kThreads / 32);
  const bool wide = (reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(x)) % 16 == 0 && (stride % 8 == 0 || rows == 1);
  const auto kernel = wide ? row_mean_kernel<true> : row_mean_kernel<false>;
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(static_cast<__half*>(out), static_cast<const __half*>(x), rows, width,
                                                                stride);
  return cudaGetLastError();
}
