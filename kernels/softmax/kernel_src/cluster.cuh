// The pair of a row that the blocks of a cluster share (sm_90): each sends its own to all of them, through the shared
// memory that the blocks of a cluster reach of each other.
#pragma once
#include <cstdint>

#include "pair.cuh"

// In shared memory, at the same place in each block.
struct Mail {
  uint64_t barrier;  // counts the bytes that have come
  float2 pairs[8];   // one a block; clusters of more are not portable
};

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Makes this block's mail ready and says so to the others. The loads of the row go between this and cluster_pair.
template <int BLOCKS>
__device__ __forceinline__ void expect_mail(Mail& mail) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0) {
    const uint32_t barrier = shared_address(&mail.barrier);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(BLOCKS * 8) : "memory");
  }
  // Relaxed: one that also ordered memory would wait for what the block has under way.
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

// Of the blocks' pairs the row's; each thread of the cluster gets it. rank: which of the blocks this one is. Nobody
// reads another block's memory, and each has its mail before it goes on: so a block may end before the others.
template <int BLOCKS>
__device__ __forceinline__ Pair cluster_pair(Pair p, Mail& mail, int rank) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");  // all have begun, and their mail is ready
  const uint32_t barrier = shared_address(&mail.barrier);
  if (threadIdx.x < BLOCKS) {
    uint32_t there = shared_address(&mail.pairs[rank]), counts = barrier;
    asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(there) : "r"(threadIdx.x));
    asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(counts) : "r"(threadIdx.x));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(there),
                 "f"(p.max), "f"(p.sum), "r"(counts)
                 : "memory");
  }
  asm volatile(
      "{\n\t.reg .pred there;\n"
      "WAIT_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 there, [%0], 0;\n\t@!there bra WAIT_%=;\n\t}" ::"r"(barrier)
      : "memory");
#endif
  const float2 other = mail.pairs[threadIdx.x % BLOCKS];
  return warp_pair<BLOCKS>({other.x, other.y});
}
