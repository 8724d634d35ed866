// Division by a number that the host knows, without a division.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define QUOTIENT_INLINE __host__ __device__ __forceinline__
#else
#define QUOTIENT_INLINE inline
#endif

// For n below 2^31 and d from 1 to 2^31: n / d = n * multiplier / 2^(31 + shift), with 2^shift >= d and the multiplier
// rounded up. It is too large by less than 2^shift / 2^(31 + shift) a unit of n, so by less than 1 / d in all.
struct FastDivisor {
  uint32_t divisor, multiplier, shift;
};

inline FastDivisor fast_divisor(uint32_t d) {
  uint32_t shift = 0;
  while ((uint64_t{1} << shift) < d) ++shift;
  return {d, static_cast<uint32_t>(((uint64_t{1} << (31 + shift)) + d - 1) / d), shift};
}

QUOTIENT_INLINE uint32_t quotient(uint32_t n, const FastDivisor& d) {
#ifdef __CUDA_ARCH__
  return __umulhi(2 * n, d.multiplier) >> d.shift;
#else
  return static_cast<uint32_t>((uint64_t{2 * n} * d.multiplier >> 32) >> d.shift);
#endif
}
