// Division of 31-bit numbers by one that the host knows: a multiplication and a shift.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

struct Divisor {
  uint32_t multiplier = 0, shift = 0;

  Divisor() = default;
  // 1 <= d < 2^31. With 2^l the least power of two that is no less than d, multiplier * d is 2^(31 + l) + e for some
  // 0 < e <= d <= 2^l. So n * multiplier / 2^(31 + l) is over n / d by n * e / (d * 2^(31 + l)) < 1 / d for n < 2^31,
  // which reaches no next integer.
  __host__ __device__ constexpr explicit Divisor(uint32_t d) : shift(31) {
    while (uint64_t{1} << (shift - 31) < d) ++shift;
    multiplier = static_cast<uint32_t>((uint64_t{1} << shift) / d + 1);
  }
  // n / d, for n < 2^31.
  __host__ __device__ constexpr uint32_t quotient(uint32_t n) const {
    return static_cast<uint32_t>(static_cast<uint64_t>(n) * multiplier >> shift);
  }
};

static_assert(Divisor(1).quotient(0x7fffffffu) == 0x7fffffffu && Divisor(3).quotient(0x7fffffffu) == 0x7fffffffu / 3 &&
                  Divisor(2688).quotient(2688u * 798000u - 1) == 797999u &&
                  Divisor(2688).quotient(2688u * 798000u) == 798000u &&
                  Divisor(0x7fffffffu).quotient(0x7ffffffeu) == 0u && Divisor(0x7fffffffu).quotient(0x7fffffffu) == 1u,
              "quotients");
