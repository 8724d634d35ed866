// The pair of a row that the blocks of a cluster share (sm_90): each block sends its own to all of them.
#pragma once
#include "cluster.cuh"
#include "pair.cuh"

namespace softmax {
using namespace common;

// In shared memory, at the same place in each block.
struct ClusterPairs {
  Mbarrier barrier;
  float2 pairs[8];  // one a block; clusters of more are not portable
};

// Prepares this block's mbarrier, and arrives at the cluster's barrier. The loads of the row go between this and
// cluster_pair.
template <int BLOCKS>
__device__ __forceinline__ void begin_cluster(ClusterPairs& shared) {
  if (threadIdx.x == 0) {
    mbarrier_init(shared.barrier);
    mbarrier_init_fence();
    mbarrier_expect(shared.barrier, BLOCKS * 8);
  }
  __syncwarp();
  cluster_arrive();
}

// Combines all blocks' pairs into the row's; each thread of the cluster gets it. rank: of this block. No block reads
// another's memory, and each waits for its own mbarrier: so a block may end before the others.
template <int BLOCKS>
__device__ __forceinline__ Pair cluster_pair(Pair p, float c, ClusterPairs& shared, int rank) {
  cluster_wait();  // all blocks have begun, and their mbarriers are ready
  if (threadIdx.x < BLOCKS) send(&shared.pairs[rank], shared.barrier, threadIdx.x, make_float2(p.max, p.sum));
  mbarrier_wait(shared.barrier, 0);
  const float2 other = shared.pairs[threadIdx.x % BLOCKS];
  return warp_pair<BLOCKS>({other.x, other.y}, c);
}

}  // namespace softmax
