// Two sums at once over the threads that share a row, or over a block, in a loop over rows.
#pragma once

// The last row's sums are still read while the next row's are written, so there are two arrays in turn: who writes an
// array again has passed the barrier between, which nobody reaches before having read it.
struct SumScratch {
  float2 sums[2][16];  // one a warp
};

__device__ __forceinline__ float2 warp_sums(float2 v, int lanes) {
#pragma unroll
  for (int d = lanes / 2; d > 0; d /= 2) {
    v.x += __shfl_xor_sync(0xffffffffu, v.x, d);
    v.y += __shfl_xor_sync(0xffffffffu, v.y, d);
  }
  return v;
}

// Over the TPR threads of a row (a power of two); each of them gets both. All threads of the block call it, as often
// as each other, with `turn` 0, 1, 0, 1 and so on.
template <int TPR>
__device__ __forceinline__ float2 row_sums(float2 v, SumScratch& scratch, int turn) {
  v = warp_sums(v, TPR < 32 ? TPR : 32);
  if constexpr (TPR > 32) {
    if (threadIdx.x % 32 == 0) scratch.sums[turn][threadIdx.x / 32] = v;
    __syncthreads();
    const float4* sums = reinterpret_cast<const float4*>(scratch.sums[turn] + threadIdx.x / TPR * (TPR / 32));
    v = make_float2(0.0f, 0.0f);
    // Not all at once: 32 registers more, which the row and its sums have.
#pragma unroll 2
    for (int w = 0; w < TPR / 64; ++w) {
      const float4 s = sums[w];
      v.x += s.x + s.z;
      v.y += s.y + s.w;
    }
  }
  return v;
}

// The same over all threads of a block of any whole number of warps up to 16.
__device__ __forceinline__ float2 block_sums(float2 v, SumScratch& scratch, int turn) {
  v = warp_sums(v, 32);
  if (threadIdx.x % 32 == 0) scratch.sums[turn][threadIdx.x / 32] = v;
  __syncthreads();
  v = make_float2(0.0f, 0.0f);
  for (unsigned w = 0; w < blockDim.x / 32; ++w) {
    v.x += scratch.sums[turn][w].x;
    v.y += scratch.sums[turn][w].y;
  }
  return v;
}
