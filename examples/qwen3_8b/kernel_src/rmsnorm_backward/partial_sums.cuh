// Rows of partial sums of dw, in memory.
#pragma once
#include "pack.cuh"

namespace rmsnorm_backward {
using namespace common;

// The i-th N partial sums of a row of them.
template <int N>
__device__ __forceinline__ void load_sums(float (&sums)[N], const float* p, int64_t i) {
  constexpr int kEach = N % 4 == 0 ? 4 : 1;
#pragma unroll
  for (int j = 0; j < N; j += kEach) {
    Pack<F32, kEach> pack;
    load<kCached>(pack, reinterpret_cast<const F32*>(p), (i * N + j) / kEach);
#pragma unroll
    for (int k = 0; k < kEach; ++k) sums[j + k] = to_float<F32>(pack.word[k]);
  }
}

template <int N>
__device__ __forceinline__ void store_sums(float* p, int64_t i, const float (&sums)[N]) {
  constexpr int kEach = N % 4 == 0 ? 4 : 1;
#pragma unroll
  for (int j = 0; j < N; j += kEach) {
    Pack<F32, kEach> pack;
#pragma unroll
    for (int k = 0; k < kEach; ++k) pack.word[k] = to_bits<F32>(sums[j + k]);
    store(reinterpret_cast<F32*>(p), (i * N + j) / kEach, pack);
  }
}

}  // namespace rmsnorm_backward
