// Two sums at once over the threads that share a row, over a block, or over a cluster, in a loop over rows.
#pragma once
#include "cluster.cuh"
#include "tuning.h"

namespace rmsnorm_backward {
using namespace common;

// Over each LANES lanes of a warp: the first half of them gets the sum of x, the second half that of y. As many shuffles as for
// one sum.
template <int LANES>
__device__ __forceinline__ float half_sums(float2 v) {
  const bool second = (threadIdx.x & LANES / 2) != 0;
  float sum = (second ? v.y : v.x) + __shfl_xor_sync(0xffffffffu, second ? v.x : v.y, LANES / 2);
#pragma unroll
  for (int d = LANES / 4; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  return sum;
}

// Both for every lane, from what half_sums answers.
template <int LANES>
__device__ __forceinline__ float2 both_sums(float sum) {
  const bool second = (threadIdx.x & LANES / 2) != 0;
  const float other = __shfl_xor_sync(0xffffffffu, sum, LANES / 2);
  return second ? make_float2(other, sum) : make_float2(sum, other);
}

template <int LANES>
__device__ __forceinline__ float2 warp_sums(float2 v) {
  return both_sums<LANES>(half_sums<LANES>(v));
}

// Two buffers, since the last row's sums are still read while the next row's are written: a thread that writes a buffer
// again has passed a barrier which no thread reaches before it has read that buffer.
struct SumScratch {
  float sums[2][2][kMostWarps];  // of x and of y, one a warp
};

// Over the `warps` warps of a row, MOST at most: each of their threads gets both. All of them call it, equally often, with `buffer`
// 0, 1, 0, 1 and so on. They are the block, or, if GROUPED, the `group`th of as many warps.
template <int MOST, bool GROUPED = false>
__device__ __forceinline__ float2 block_sums(float2 v, SumScratch& scratch, int buffer, int warps, int group = 0) {
  static_assert(MOST <= 32, "a lane reads the sums of two warps");
  float sum = half_sums<32>(v);
  const int lane = threadIdx.x % 16;
  float* const sums = scratch.sums[buffer][threadIdx.x / 16 % 2];
  if (lane == 0) sums[threadIdx.x / 32] = sum;
  if constexpr (GROUPED) {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(warps * 32) : "memory");
  } else {
    __syncthreads();
  }
  const int first = GROUPED ? group * warps : 0;
  sum = lane < warps ? sums[first + lane] : 0.0f;
  if constexpr (MOST > 16) sum += lane + 16 < warps ? sums[first + lane + 16] : 0.0f;
#pragma unroll
  for (int d = 8; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  return both_sums<32>(sum);
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
  v = warp_sums<32>(v);
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
  return warp_sums<32>(v);
}

}  // namespace rmsnorm_backward
