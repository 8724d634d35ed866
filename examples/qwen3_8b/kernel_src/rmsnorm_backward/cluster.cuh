// Clusters: thread blocks that stand on the card at the same time and reach each other's shared memory (sm_90). Code of
// older architectures has clusters of one block.
#pragma once
#include <cstdint>

// These four are read again at each use (volatile), and so take no registers in between.
__device__ __forceinline__ int cluster_size() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return static_cast<int>(size);
#else
  return 1;
#endif
}

// Which of its cluster's blocks this one is.
__device__ __forceinline__ int cluster_rank() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  return 0;
#endif
}

// Which of the grid's clusters it belongs to.
__device__ __forceinline__ int cluster_index() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t index;
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return static_cast<int>(index);
#else
  return static_cast<int>(blockIdx.x);
#endif
}

__device__ __forceinline__ int clusters_of_the_grid() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t clusters;
  asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(clusters));
  return static_cast<int>(clusters);
#else
  return static_cast<int>(gridDim.x);
#endif
}

// That all blocks of the cluster have begun, in two halves: what a thread did before the first is done after the second.
// It is the only barrier here: one that also ordered memory would wait for each block's stores and empty its L1.
__device__ __forceinline__ void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// Counts the bytes that other blocks send: in shared memory, at the same place in each block. One thread makes it before
// cluster_arrive.
struct Mailbox {
  uint64_t barrier;
};

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// To be called by one thread for all of a block's mailboxes, then begin_mail.
__device__ __forceinline__ void make_mailbox(Mailbox& box) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&box)) : "memory");
#endif
}
__device__ __forceinline__ void begin_mail() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Once a turn, by one thread: how many bytes come.
__device__ __forceinline__ void expect_mail(Mailbox& box, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&box)), "r"(bytes)
               : "memory");
#endif
}

// Until they are there and can be read. parity: of the mailbox's turns, 0 at the first.
__device__ __forceinline__ void await_mail(Mailbox& box, int parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t.reg .pred there;\n"
      "WAIT_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n\t@!there bra WAIT_%=;\n\t}" ::"r"(
          shared_address(&box)),
      "r"(parity)
      : "memory");
#endif
}

// To that block's variable and mailbox which are where `place` and `box` are here. Nobody waits for it here; the other
// block must wait before it ends.
__device__ __forceinline__ uint32_t address_in(const void* place, int rank) {
  uint32_t address = shared_address(place);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
#endif
  return address;
}
__device__ __forceinline__ void send(const float2* place, const Mailbox& box, int rank, float2 v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
                   address_in(place, rank)),
               "f"(v.x), "f"(v.y), "r"(address_in(&box, rank))
               : "memory");
#endif
}
