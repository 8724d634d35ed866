// The two 16-bit types; see cuda_runtime.h.
#pragma once
#include "cuda_runtime.h"

struct __half {
  _Float16 v;
  __half() = default;
  explicit __half(float x) : v(static_cast<_Float16>(x)) {}
  operator float() const { return static_cast<float>(v); }
};
struct __nv_bfloat16 {
  uint16_t word;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float x) {
    const uint32_t u = __float_as_uint(x);
    word = x != x ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
  }
  operator float() const { return __uint_as_float(uint32_t(word) << 16); }
};
#define HALF(T, NAME, NAME2)                                                                  \
  struct alignas(4) T##2 { T x, y; };                                                         \
  inline float __##NAME##2float(T v) { return v; }                                            \
  inline T __float2##NAME(float v) { return T(v); }                                           \
  inline T __float2##NAME##_rn(float v) { return T(v); }                                      \
  inline T##2 __floats2##NAME2##_rn(float a, float b) { return {T(a), T(b)}; }                \
  inline T##2 __float22##NAME2##_rn(float2 v) { return {T(v.x), T(v.y)}; }                    \
  inline float __low2float(T##2 v) { return v.x; }                                            \
  inline float __high2float(T##2 v) { return v.y; }
HALF(__half, half, half2)
HALF(__nv_bfloat16, bfloat16, bfloat162)
#undef HALF
using half = __half;
using half2 = __half2;
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline uint16_t __half_as_ushort(__half v) { return stand_in::bits<uint16_t>(v); }
inline __half __ushort_as_half(uint16_t v) { return stand_in::bits<__half>(v); }
inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 v) { return v.word; }
