// Two sums at once over the threads that share a row, over a block, or over a cluster, in a loop over rows.
#pragma once
#include "cluster.cuh"
#include "tuning.h"

namespace rmsnorm_backward {
using namespace common;

// Two buffers, since the last row's sums are still read while the next row's are written: a thread that writes a buffer
// again has passed a barrier which no thread reaches before it has read that buffer.
struct SumScratch {
  float2 sums[2][kMostWarps];  // one a warp
};

__device__ __forceinline__ float2 warp_sums(float2 v, int lanes) {
#pragma unroll
  for (int d = lanes / 2; d > 0; d /= 2) {
    v.x += __shfl_xor_sync(0xffffffffu, v.x, d);
    v.y += __shfl_xor_sync(0xffffffffu, v.y, d);
  }
  return v;
}

// By all threads of a block of so many warps, before its first row_sums: sums are read two at a time.
__device__ __forceinline__ void begin_block(SumScratch& scratch, int warps) {
  if (warps % 2 == 1 && threadIdx.x < 2) scratch.sums[threadIdx.x][warps] = make_float2(0.0f, 0.0f);
}

// Over the TPR threads of a row: a power of two up to 32, or else the whole block, which has so many warps. Each of them
// gets both. All threads of the block call it, equally often, with `buffer` 0, 1, 0, 1 and so on.
template <int TPR>
__device__ __forceinline__ float2 row_sums(float2 v, SumScratch& scratch, int buffer, int warps) {
  v = warp_sums(v, TPR < 32 ? TPR : 32);
  if constexpr (TPR > 32) {
    if (threadIdx.x % 32 == 0) scratch.sums[buffer][threadIdx.x / 32] = v;
    __syncthreads();
    const float4* sums = reinterpret_cast<const float4*>(scratch.sums[buffer]);
    v = make_float2(0.0f, 0.0f);
    // Not all at once: 32 registers more, which the row and its sums have.
#pragma unroll 2
    for (int w = 0; w < (warps + 1) / 2; ++w) {
      const float4 s = sums[w];
      v.x += s.x + s.z;
      v.y += s.y + s.w;
    }
  }
  return v;
}

// The same over all threads of a block of any whole number of warps up to 16.
__device__ __forceinline__ float2 block_sums(float2 v, SumScratch& scratch, int buffer) {
  v = warp_sums(v, 32);
  if (threadIdx.x % 32 == 0) scratch.sums[buffer][threadIdx.x / 32] = v;
  __syncthreads();
  v = make_float2(0.0f, 0.0f);
  for (unsigned w = 0; w < blockDim.x / 32; ++w) {
    v.x += scratch.sums[buffer][w].x;
    v.y += scratch.sums[buffer][w].y;
  }
  return v;
}

// The same for a cluster. A warp that sends to a buffer again has all sums of the round between, which every warp sent
// after it had read that buffer.
struct ClusterScratch {
  float2 sums[2][kMostWarps * kMostBlocksOfACluster];
  Mbarrier barriers[2];
};

__device__ __forceinline__ void begin_cluster(ClusterScratch& scratch) {
  if (threadIdx.x == 0) {
    for (Mbarrier& barrier : scratch.barriers) mbarrier_init(barrier);
    mbarrier_init_fence();
  }
  __syncwarp();
  cluster_arrive();
}

// Over all threads of a cluster whose blocks have so many warps. `round` goes 0, 1, 2, 3, 0 and so on: its low bit is the
// buffer, the other the parity of that buffer's phase. Each warp sends its sums to every block and adds up all of them, in
// the same order.
__device__ __forceinline__ float2 cluster_sums(float2 v, ClusterScratch& scratch, int round, int warps) {
  const int lane = threadIdx.x % 32, buffer = round % 2;
  v = warp_sums(v, 32);
  if (threadIdx.x == 0) mbarrier_expect(scratch.barriers[buffer], cluster_size() * warps * 8);
  if (lane < cluster_size())
    send(&scratch.sums[buffer][cluster_rank() * warps + threadIdx.x / 32], scratch.barriers[buffer], lane, v);
  mbarrier_wait(scratch.barriers[buffer], round / 2);
  v = make_float2(0.0f, 0.0f);
#pragma unroll 1
  for (int i = lane; i < cluster_size() * warps; i += 32) {
    v.x += scratch.sums[buffer][i].x;
    v.y += scratch.sums[buffer][i].y;
  }
  __syncwarp();
  return warp_sums(v, 32);
}

}  // namespace rmsnorm_backward
