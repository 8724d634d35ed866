// The maximum of a row and the sum of its exponentials, found together: one reduction, where two would each wait for
// every thread.
#pragma once
#include "fast_math.cuh"

namespace softmax {
using namespace common;

// 2^(c * (sign * x - max)) are the exponentials of a row; c is not below zero.
struct Scale {
  float sign, c;
};
__device__ __forceinline__ Scale scale_of(float log2_scale) { return {copysignf(1.0f, log2_scale), fabsf(log2_scale)}; }

// The largest sign * x of some of a row, and the sum of their exponentials.
struct Pair {
  float max, sum;
};
// Of none. Not -infinity, which less itself is no number: of nothing else the sum stays 0.
constexpr Pair kNoPair = {-3.402823466e+38f, 0.0f};

// Over LANES neighbours of a warp, a power of two; each of them gets it.
template <int LANES>
__device__ __forceinline__ float lanes_max(float v) {
#pragma unroll
  for (int d = LANES / 2; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
template <int LANES>
__device__ __forceinline__ float lanes_sum(float v) {
#pragma unroll
  for (int d = LANES / 2; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
template <int LANES>
__device__ __forceinline__ Pair warp_pair(Pair p, float c) {
  const float max = lanes_max<LANES>(p.max);
  return {max, lanes_sum<LANES>(p.sum * exp2_fast((p.max - max) * c))};
}

// Over the threads of a row: TPR neighbours, a power of two up to 64, or all of a block of whole warps, up to TPR. All
// threads of the block call it, those of no row too, and a kernel calls it once: there is no second barrier that would
// let scratch be written again.
template <int TPR>
__device__ __forceinline__ Pair row_pair(Pair p, float c, float2 (&scratch)[32]) {
  p = warp_pair<(TPR < 32 ? TPR : 32)>(p, c);
  if constexpr (TPR > 32) {
    constexpr int kWarps = TPR / 32;
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = make_float2(p.max, p.sum);
    __syncthreads();
    // A lane takes one warp's pair: 32 exponentials a lane would cost more than these shuffles.
    const unsigned warp = (TPR < 128 ? threadIdx.x / TPR * kWarps : 0) + threadIdx.x % kWarps;
    const float2 other = warp < blockDim.x / 32 ? scratch[warp] : make_float2(kNoPair.max, kNoPair.sum);
    p = warp_pair<kWarps>({other.x, other.y}, c);
  }
  return p;
}

}  // namespace softmax
