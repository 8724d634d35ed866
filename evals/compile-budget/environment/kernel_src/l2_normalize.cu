// out = x / max(|x|, eps), a row at a time.
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kThreads = 1024, kMost = 96;

__global__ void __launch_bounds__(kThreads) l2_normalize_rows(float* out, const float* x, int64_t width, int64_t stride, float eps) {
  __shared__ float sums[kThreads];
  float row[kMost];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kMost; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    row[k] = i < width ? x[blockIdx.x * stride + i] : 0.0f;
    sum += row[k] * row[k];
  }
  sums[threadIdx.x] = sum;
  for (int d = kThreads / 2; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) sums[threadIdx.x] += sums[threadIdx.x + d];
  }
  __syncthreads();
  const float factor = 1.0f / fmaxf(sqrtf(sums[0]), eps);
#pragma unroll
  for (int k = 0; k < kMost; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < width) out[blockIdx.x * stride + i] = row[k] * factor;
  }
}

extern "C" int l2_normalize_launch(void* out, const void* x, int64_t rows, int64_t width, int64_t stride, float eps,
                                   cudaStream_t stream) {
  if (rows < 0 || width < 0 || stride < width || width > 8192 || rows > INT32_MAX) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  l2_normalize_rows<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(x),
                                                                         width, stride, eps);
  return cudaGetLastError();
}
