// A causal convolution along time, each channel by itself: out[t] = w[0] x[t - 3] + w[1] x[t - 2] + w[2] x[t - 1] + w[3] x[t].
// fp16, for sm_75. A block takes 64 channels of 128 rows; the tile and the three rows before it are 16.4 KB of shared memory.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kChannels = 64, kRows = 128, kTaps = 4, kThreads = 256;
constexpr int kTile = (kRows + kTaps - 1) * kChannels;

__global__ void __launch_bounds__(kThreads)
    short_conv_kernel(__half* out, const __half* x, const __half* weight, int64_t time, int64_t channels) {
  extern __shared__ __align__(16) __half tile[];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kChannels;
  for (int64_t begin = static_cast<int64_t>(blockIdx.y) * kRows; begin < time; begin += static_cast<int64_t>(gridDim.y) * kRows) {
    for (int i = threadIdx.x; i < kTile; i += kThreads) {
      const int64_t t = begin - (kTaps - 1) + i / kChannels, c = first + i % kChannels;
      tile[i] = t >= 0 && t < time && c < channels ? x[t * channels + c] : __float2half(0.0f);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kChannels; i += kThreads) {
      const int64_t t = begin + i / kChannels, c = first + i % kChannels;
      if (t >= time || c >= channels) continue;
      float sum = 0.0f;
#pragma unroll
      for (int k = 0; k < kTaps; ++k) sum += __half2float(weight[c * kTaps + k]) * __half2float(tile[i + k * kChannels]);
      out[t * channels + c] = __float2half_rn(sum);
    }
    __syncthreads();
  }
}

extern "C" int short_conv_launch(void* out, const void* x, const void* weight, int64_t time, int64_t channels, cudaStream_t stream) {
  if (time < 0 || channels < 0) return cudaErrorInvalidValue;
  if (time == 0 || channels == 0) return cudaSuccess;
  const int64_t parts = (time + kRows - 1) / kRows;
  const dim3 grid(static_cast<unsigned>((channels + kChannels - 1) / kChannels), static_cast<unsigned>(parts < 65535 ? parts : 65535));
  short_conv_kernel<<<grid, kThreads, kTile * sizeof(__half), stream>>>(
      static_cast<__half*>(out), static_cast<const __half*>(x), static_cast<const __half*>(weight), time, channels);
  return cudaGetLastError();
}
