// Rows that several threads share: the threads of a block, and sums over those of a row.
#pragma once

namespace common {

// Rows of fewer than 128 threads share a block.
template <int TPR>
constexpr int kBlockThreads = TPR < 128 ? 128 : TPR;

// Sum over the TPR threads of a row (a power of two); each of them gets it. All threads of the block call it, those of
// no row too, and a kernel calls it once: there is no second barrier that would let scratch be written again.
template <int TPR>
__device__ __forceinline__ float row_sum(float v, float (&scratch)[32]) {
#pragma unroll
  for (int d = (TPR < 32 ? TPR : 32) / 2; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  if constexpr (TPR > 32) {
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    // Every lane reads all of them (a broadcast) rather than shuffle once more: the adds cost less than the shuffles.
    const float* sums = scratch + threadIdx.x / TPR * (TPR / 32);
    v = 0.0f;
    if constexpr (TPR >= 128) {
#pragma unroll
      for (int w = 0; w < TPR / 32; w += 4) {
        const float4 s = *reinterpret_cast<const float4*>(sums + w);
        v += (s.x + s.y) + (s.z + s.w);
      }
    } else {
      v = sums[0] + sums[1];
    }
  }
  return v;
}

// The same over all threads of a block of any whole number of warps.
__device__ __forceinline__ float block_sum(float v, float (&scratch)[32]) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.0f;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) v += scratch[w];
  return v;
}

}  // namespace common
