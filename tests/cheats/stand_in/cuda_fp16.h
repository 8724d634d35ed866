// The two half types, as far as the candidates and contents.cu use them.
#pragma once
#include "cuda_runtime.h"

struct __half {
  uint16_t word;
  __half() = default;
  explicit __half(float value) {
    uint32_t x = __float_as_uint(value);
    const uint32_t sign = x >> 16 & 0x8000;
    x &= 0x7fffffff;
    if (x > 0x7f800000)
      x = 0x7e00;
    else if (x >= 0x477ff000)
      x = 0x7c00;
    else if (x < 0x38800000)  // subnormal: a unit of it is a unit of 0.5
      x = __float_as_uint(stand_in::bits<float>(x) + 0.5f) - 0x3f000000;
    else
      x = (x + 0xc8000fff + (x >> 13 & 1)) >> 13;
    word = sign | x;
  }
  explicit operator float() const {
    const uint32_t x = (word & 0x7fffu) << 13, sign = (word & 0x8000u) << 16;
    if (x >= 0x7c00u << 13) return stand_in::bits<float>(sign | x | 0x7f800000);
    return stand_in::bits<float>(sign | __float_as_uint(stand_in::bits<float>(x) * 0x1p112f));
  }
};

struct __nv_bfloat16 {
  uint16_t word;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) {
    const uint32_t x = __float_as_uint(value);
    word = isnan(value) ? 0x7fff : (x + 0x7fff + (x >> 16 & 1)) >> 16;
  }
  explicit operator float() const { return stand_in::bits<float>(uint32_t(word) << 16); }
};

inline __half __float2half_rn(float value) { return __half(value); }
inline uint16_t __half_as_ushort(__half value) { return value.word; }
