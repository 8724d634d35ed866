// Generated from kernels/common/division.h.
// Division of 31-bit numbers by a divisor that the host knows, without a division.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace common {

// n / d = n * (2^32 + magic) / 2^(32 + shift), rounded down, for n below 2^31 and d from 1 on (Granlund and Montgomery
// 1994).
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

}  // namespace common
