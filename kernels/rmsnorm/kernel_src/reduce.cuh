// Sums over the threads that share a row: a part of a warp, a block, or a cluster of blocks.
#pragma once
#include <cstdint>

// The cluster that a block is in. A launch without clusters is one of one block each.
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}
__device__ __forceinline__ uint32_t cluster_size() {
  uint32_t size = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
  return size;
}
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}
// Stores to `slot` of the shared memory of the block of that rank.
__device__ __forceinline__ void store_to_rank(float* slot, uint32_t rank, float value) {
#if __CUDA_ARCH__ >= 900
  uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(remote)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(slot))), "r"(rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(value) : "memory");
#else
  *slot = value;
#endif
}

// Sum over groups of `width` lanes (a power of two); each lane gets it.
__device__ __forceinline__ float lane_sum(float v, int width) {
#pragma unroll
  for (int d = width / 2; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// Sum over the TPR threads of a row; each of them gets it. All threads of the block call it, and `scratch` is not
// written again before the next barrier but one: a kernel that sums once needs one barrier, not two.
template <int TPR>
__device__ __forceinline__ float row_sum(float v, float (&scratch)[32]) {
  v = lane_sum(v, TPR < 32 ? TPR : 32);
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

// Sum over all threads of a cluster of blocks of TPR threads. Each warp leaves its sum in every block of the cluster;
// `cluster_arrive()` has been called once before, at the start: a block's shared memory may be written by others only
// when it runs.
template <int TPR>
__device__ __forceinline__ float cluster_sum(float v, float (&scratch)[8 * 32]) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, size = cluster_size();
  v = lane_sum(v, 32);
  cluster_wait();
  if (lane < size) store_to_rank(scratch + cluster_rank() * (TPR / 32) + warp, lane, v);
  cluster_arrive();
  cluster_wait();
  v = 0.0f;
  for (uint32_t i = lane; i < size * (TPR / 32); i += 32) v += scratch[i];
  return lane_sum(v, 32);
}
