// Generated from kernels/common/division.h.
// Division of numbers below 2^31 by a divisor from 1 to 2^31 - 1 that the host knows, without a division.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace common {

// n / d = n * (2^32 + magic) / 2^(32 + shift), rounded down (Granlund and Montgomery 1994).
struct Divisor {
  uint32_t magic = 0, shift = 0;

  Divisor() = default;
  explicit Divisor(uint32_t d) {
    while (uint64_t{1} << shift < d) ++shift;
    magic = static_cast<uint32_t>((((uint64_t{1} << shift) - d) << 32) / d + 1);
  }
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    return (__umulhi(n, magic) + n) >> shift;  // no carry is lost: n is below 2^31
  }
};

// The same by one 64-bit product: for kernels whose registers the other form would exceed.
struct WideDivisor {
  uint32_t multiplier = 0, shift = 0;

  WideDivisor() = default;
  // With 2^l the least power of two that is no less than d, multiplier * d is 2^(31 + l) + e for some 0 < e <= d <= 2^l.
  // So n * multiplier / 2^(31 + l) exceeds n / d by n * e / (d * 2^(31 + l)) < 1 / d, which reaches no next integer.
  explicit WideDivisor(uint32_t d) : shift(31) {
    while (uint64_t{1} << (shift - 31) < d) ++shift;
    multiplier = static_cast<uint32_t>((uint64_t{1} << shift) / d + 1);
  }
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    return static_cast<uint32_t>(static_cast<uint64_t>(n) * multiplier >> shift);
  }
};

}  // namespace common
