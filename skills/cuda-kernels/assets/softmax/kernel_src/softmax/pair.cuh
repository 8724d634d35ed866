// The maximum of a row and the sum of its exponentials, found together: one reduction, where two would each wait for
// every thread.
#pragma once
#include "fast_math.cuh"

namespace softmax {
using namespace common;

// sum is that of 2^(y - max) over some of a row's y. Of none: -infinity and 0.
struct Pair {
  float max, sum;
};

// What is taken from exponents: where every y so far is -infinity, 0, since -infinity less itself is no number.
__device__ __forceinline__ float anchor(float max) { return max == -INFINITY ? 0.0f : max; }

// Over LANES neighbours of a warp, a power of two; each of them gets it.
template <int LANES>
__device__ __forceinline__ Pair warp_pair(Pair p) {
  float max = p.max;
#pragma unroll
  for (int d = LANES / 2; d > 0; d /= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, d));
  float sum = p.sum * exp2_fast(p.max - anchor(max));
#pragma unroll
  for (int d = LANES / 2; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  return {max, sum};
}

// Over the threads of a row: TPR neighbours, a power of two up to 32, or all of a block of whole warps, up to TPR. All
// threads of the block call it, those of no row too, and a kernel calls it once: there is no second barrier that would
// let scratch be written again.
template <int TPR>
__device__ __forceinline__ Pair row_pair(Pair p, float2 (&scratch)[32]) {
  p = warp_pair<(TPR < 32 ? TPR : 32)>(p);
  if constexpr (TPR > 32) {
    constexpr int kWarps = TPR / 32;
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = make_float2(p.max, p.sum);
    __syncthreads();
    // A lane takes one warp's pair: 32 exponentials a lane would cost more than these shuffles.
    const unsigned warp = threadIdx.x % kWarps;
    const float2 other = warp < blockDim.x / 32 ? scratch[warp] : make_float2(-INFINITY, 0.0f);
    p = warp_pair<kWarps>({other.x, other.y});
  }
  return p;
}

}  // namespace softmax
