// A causal convolution along time, each channel by itself: out[t] = w[0] x[t - 3] + w[1] x[t - 2] + w[2] x[t - 1] + w[3] x[t].
// bf16. A block takes 64 channels and walks along time, with the next rows on their way while it computes.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kChannels = 64, kRows = 384, kTaps = 4, kThreads = 256;
constexpr int kTile = (kRows + kTaps - 1) * kChannels;

__device__ inline void copy_async(void* to, const void* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from));
}

__global__ void __launch_bounds__(kThreads)
    short_conv_kernel(__nv_bfloat16* out, const __nv_bfloat16* x, const __nv_bfloat16* weight, int64_t time, int64_t channels) {
  extern __shared__ __align__(16) __nv_bfloat16 tiles[];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kChannels;
  const auto fetch = [&](int64_t begin, __nv_bfloat16* tile) {
    for (int i = threadIdx.x * 2; i < kTile; i += kThreads * 2) {
      const int64_t t = begin - (kTaps - 1) + i / kChannels, c = first + i % kChannels;
      if (t >= 0 && t < time && c < channels) {
        copy_async(tile + i, x + t * channels + c);
      } else {
        tile[i] = tile[i + 1] = __float2bfloat16(0.0f);
      }
    }
    asm volatile("cp.async.commit_group;");
  };
  fetch(0, tiles);
  int turn = 0;
  for (int64_t begin = 0; begin < time; begin += kRows, turn ^= 1) {
    fetch(begin + kRows, tiles + (turn ^ 1) * kTile);
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    const __nv_bfloat16* tile = tiles + turn * kTile;
    for (int i = threadIdx.x; i < kRows * kChannels; i += kThreads) {
      const int64_t t = begin + i / kChannels, c = first + i % kChannels;
      if (t >= time || c >= channels) continue;
      float sum = 0.0f;
#pragma unroll
      for (int k = 0; k < kTaps; ++k) sum += __bfloat162float(weight[c * kTaps + k]) * __bfloat162float(tile[i + k * kChannels]);
      out[t * channels + c] = __float2bfloat16(sum);
    }
    __syncthreads();
  }
}

extern "C" int short_conv_launch(void* out, const void* x, const void* weight, int64_t time, int64_t channels, cudaStream_t stream) {
  if (time < 0 || channels < 0 || channels % 2 != 0) return cudaErrorInvalidValue;
  if (time == 0 || channels == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((channels + kChannels - 1) / kChannels);
  constexpr int kBytes = 2 * kTile * sizeof(__nv_bfloat16);
  const cudaError_t allowed = cudaFuncSetAttribute(short_conv_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (allowed != cudaSuccess) return allowed;
  short_conv_kernel<<<blocks, kThreads, kBytes, stream>>>(static_cast<__nv_bfloat16*>(out), static_cast<const __nv_bfloat16*>(x),
                                                         static_cast<const __nv_bfloat16*>(weight), time, channels);
  return cudaGetLastError();
}
