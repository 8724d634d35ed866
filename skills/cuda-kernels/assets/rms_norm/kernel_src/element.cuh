// The element types: bits to fp32 and back, one element or two at a time.
//
// They work on bits, without CUDA's headers for these types: half of a small unit's compile time would be theirs.
#pragma once
#include <cstdint>

namespace common {

struct F32 {
  uint32_t bits;
};
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

template <typename T>
__device__ __forceinline__ float to_float(uint32_t bits);
template <typename T>
__device__ __forceinline__ void to_floats(uint32_t bits, float& low, float& high);
template <typename T>
__device__ __forceinline__ uint32_t to_bits(float x);
template <typename T>
__device__ __forceinline__ uint32_t to_two(float low, float high);

template <>
__device__ __forceinline__ float to_float<F32>(uint32_t bits) {
  return __uint_as_float(bits);
}
template <>
__device__ __forceinline__ uint32_t to_bits<F32>(float x) {
  return __float_as_uint(x);
}

template <>
__device__ __forceinline__ void to_floats<F16>(uint32_t bits, float& low, float& high) {
  asm("{\n\t.reg .f16 a, b;\n\tmov.b32 {a, b}, %2;\n\tcvt.f32.f16 %0, a;\n\tcvt.f32.f16 %1, b;\n\t}"
      : "=f"(low), "=f"(high)
      : "r"(bits));
}
template <>
__device__ __forceinline__ float to_float<F16>(uint32_t bits) {
  float low, high;
  to_floats<F16>(bits, low, high);
  return low;
}
template <>
__device__ __forceinline__ uint32_t to_two<F16>(float low, float high) {
  uint32_t bits;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
#else
  asm("{\n\t.reg .f16 a, b;\n\tcvt.rn.f16.f32 a, %1;\n\tcvt.rn.f16.f32 b, %2;\n\tmov.b32 %0, {a, b};\n\t}"
      : "=r"(bits)
      : "f"(low), "f"(high));
#endif
  return bits;
}
template <>
__device__ __forceinline__ uint32_t to_bits<F16>(float x) {
  return to_two<F16>(x, 0.0f);
}

// bf16 is the upper half of an fp32.
template <>
__device__ __forceinline__ void to_floats<BF16>(uint32_t bits, float& low, float& high) {
  low = __uint_as_float(bits << 16);
  high = __uint_as_float(bits & 0xffff0000u);
}
template <>
__device__ __forceinline__ float to_float<BF16>(uint32_t bits) {
  return __uint_as_float(bits << 16);
}
#if __CUDA_ARCH__ < 800
// sm_75 has no instruction for it. Adding half of the last place, less one where the kept part is even, rounds to
// nearest even and carries into the exponent (infinity where it must); a NaN keeps its sign and becomes quiet.
__device__ __forceinline__ uint32_t round_to_bf16(float x) {
  const uint32_t u = __float_as_uint(x);
  return x != x ? (u >> 16 | 0x40u) : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}
#endif
template <>
__device__ __forceinline__ uint32_t to_two<BF16>(float low, float high) {
#if __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return round_to_bf16(low) | round_to_bf16(high) << 16;
#endif
}
template <>
__device__ __forceinline__ uint32_t to_bits<BF16>(float x) {
  return to_two<BF16>(x, 0.0f);
}

}  // namespace common
