// The largest element of packs.
#pragma once
#include "pack.cuh"
#include "pair.cuh"

namespace softmax {
using namespace common;

// The larger of max and the pack's elements times `sign`.
template <bool UP, typename T, int N>
__device__ __forceinline__ float pack_max(const Pack<T, N>& pack, float sign, float max) {
  float f[N];
  unpack(pack, f);
#pragma unroll
  for (int j = 0; j < N; ++j) max = fmaxf(max, UP ? f[j] : f[j] * sign);
  return max;
}

// The larger of each of two elements of 16 bits (sm_80); of a number and a NaN the number. Any other type: not called.
template <typename T>
__device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t) {
  return a;
}
#if __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ uint32_t larger<F16>(uint32_t a, uint32_t b) {
  asm("max.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
template <>
__device__ __forceinline__ uint32_t larger<BF16>(uint32_t a, uint32_t b) {
  asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
#endif

// The least finite number, twice.
template <typename T>
constexpr uint32_t kLeast = 0;
template <>
constexpr uint32_t kLeast<F16> = 0xfbfffbffu;
template <>
constexpr uint32_t kLeast<BF16> = 0xff7fff7fu;

// The largest sign * x of the packs that are added, no less than the least finite number; sign is 1 or -1. Elements of 16 bits are
// compared two at a time, half an instruction an element in place of three.
template <typename T>
struct Largest {
#if __CUDA_ARCH__ >= 800
  static constexpr bool kTwo = sizeof(T) == 2;
#else
  static constexpr bool kTwo = false;
#endif
  float sign, max = kNoPair.max;
  uint32_t two = kLeast<T>, signs;

  __device__ __forceinline__ explicit Largest(float sign) : sign(sign) {
    const uint32_t bit = __float_as_uint(sign) & 0x80000000u;
    signs = bit | bit >> 16;
  }
  template <int N>
  __device__ __forceinline__ void add(const Pack<T, N>& pack) {
    if constexpr (kTwo && N > 1) {
#pragma unroll
      for (const uint32_t word : pack.word) two = larger<T>(two, word ^ signs);
    } else {
      max = pack_max<false>(pack, sign, max);
    }
  }
  __device__ __forceinline__ float get() const {
    if constexpr (kTwo) {
      float low, high;
      to_floats<T>(two, low, high);
      return fmaxf(max, fmaxf(low, high));
    }
    return max;
  }
};

}  // namespace softmax
