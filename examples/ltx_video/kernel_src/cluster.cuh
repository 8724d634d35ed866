// Generated from kernels/common/cluster.cuh.
// Clusters (sm_90): thread blocks that are resident at the same time and reach each other's shared memory. In code of
// older architectures a cluster is one block.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace common {

// The next four are read again at each use (volatile), and so take no registers in between.
__device__ __forceinline__ int cluster_size() {
#if __CUDA_ARCH__ >= 900
  uint32_t size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return static_cast<int>(size);
#else
  return 1;
#endif
}

// The rank of this block in its cluster.
__device__ __forceinline__ int cluster_rank() {
#if __CUDA_ARCH__ >= 900
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  return 0;
#endif
}

// The index of this block's cluster in the grid.
__device__ __forceinline__ int cluster_index() {
#if __CUDA_ARCH__ >= 900
  uint32_t index;
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return static_cast<int>(index);
#else
  return static_cast<int>(blockIdx.x);
#endif
}

// The clusters of the grid.
__device__ __forceinline__ int cluster_count() {
#if __CUDA_ARCH__ >= 900
  uint32_t clusters;
  asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(clusters));
  return static_cast<int>(clusters);
#else
  return static_cast<int>(gridDim.x);
#endif
}

// The cluster's barrier, in two halves; each warp comes to each of them converged. The arrival is relaxed: one that also
// ordered memory would wait for each block's accesses and empty its L1. What must be seen by then is fenced on its own.
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// The address of the same variable in the shared memory of another block of the cluster.
__device__ __forceinline__ uint32_t shared_address(const void* p, int rank) {
  uint32_t address = shared_address(p);
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
#endif
  return address;
}

// An mbarrier in shared memory that counts the bytes which other blocks send.
struct Mbarrier {
  uint64_t state;
};

// By one thread, for all of a block's mbarriers; then the fence, before cluster_arrive.
__device__ __forceinline__ void mbarrier_init(Mbarrier& barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
#endif
}
__device__ __forceinline__ void mbarrier_init_fence() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Once a phase, by one thread: how many bytes come.
__device__ __forceinline__ void mbarrier_expect(Mbarrier& barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
#endif
}

// Until the bytes of the phase of this parity, 0 at first, have come and can be read: other blocks of the cluster wrote
// them, which the default, .acquire.cta, does not cover.
__device__ __forceinline__ void mbarrier_wait(Mbarrier& barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t.reg .pred done;\n"
      "WAIT_%=:\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n\t@!done bra WAIT_%=;\n\t}" ::"r"(
          shared_address(&barrier)),
      "r"(parity)
      : "memory");
#endif
}

// Stores v to the same variable in another block, whose mbarrier counts the bytes. The sender does not wait; the
// receiver must wait before it ends.
__device__ __forceinline__ void send(const float2* to, const Mbarrier& barrier, int rank, float2 v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
                   shared_address(to, rank)),
               "f"(v.x), "f"(v.y), "r"(shared_address(&barrier, rank))
               : "memory");
#endif
}

}  // namespace common
