// Division by a number that the host knows.
#pragma once
#include <cstdint>

// i / divisor for every i below 2^31, without a division: (i * (2^32 + magic)) >> (32 + shift)
// (Granlund and Montgomery 1994).
struct Division {
  uint32_t magic, shift;
};

static inline Division division_by(uint32_t divisor) {
  uint32_t shift = 0;
  while ((uint64_t{1} << shift) < divisor) ++shift;
  return {static_cast<uint32_t>((((uint64_t{1} << shift) - divisor) << 32) / divisor + 1), shift};
}

#ifdef __CUDACC__
__device__ __forceinline__ uint32_t quotient(uint32_t i, const Division& by) {
  return (__umulhi(i, by.magic) + i) >> by.shift;  // no carry is lost: i is below 2^31
}
#endif
