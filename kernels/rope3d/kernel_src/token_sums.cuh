// Sums over the threads that share a token, of q and of k with one barrier.
#pragma once

namespace rope3d {

// Each v[t] becomes its sum over the TPT threads of a token (a power of two, a warp at least). All threads of the block
// call it, those of no token too, and a kernel calls it once.
template <int TPT, int TENSORS>
__device__ __forceinline__ void token_sums(float (&v)[TENSORS], float (&scratch)[TENSORS][32]) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
#pragma unroll
    for (int t = 0; t < TENSORS; ++t) v[t] += __shfl_xor_sync(0xffffffffu, v[t], d);
  }
  if constexpr (TPT > 32) {
    static_assert(TPT >= 128, "sums are read four at a time");
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int t = 0; t < TENSORS; ++t) scratch[t][threadIdx.x / 32] = v[t];
    }
    __syncthreads();
    // Every lane reads all of them (a broadcast) rather than shuffle once more.
    const int first = threadIdx.x / TPT * (TPT / 32);
#pragma unroll
    for (int t = 0; t < TENSORS; ++t) {
      v[t] = 0.0f;
#pragma unroll
      for (int w = 0; w < TPT / 32; w += 4) {
        const float4 s = *reinterpret_cast<const float4*>(scratch[t] + first + w);
        v[t] += (s.x + s.y) + (s.z + s.w);
      }
    }
  }
}

}  // namespace rope3d
