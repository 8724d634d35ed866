// gelu(x) = x * p(x) in fp32, p the normal distribution function (erf) or the logistic one that comes near it (tanh).
//
// With t = |x| both are max(x, 0) - t * p(-t): the tail p(-t) is computed as such, so nothing cancels for negative x,
// where 1 + erf and 1 + tanh would. Without branches; a NaN stays one.
#pragma once
#include "element.cuh"

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// max(x, 0); a NaN stays one.
__device__ __forceinline__ float positive_part(float x) {
  float y;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
  return y;
}

// log2 of the normal tail is nearly a parabola. So one polynomial and one exponential give it, as near as a 16-bit
// result needs: that is half the instructions of the quotient below, on what arithmetic an SM has time for.
__device__ __forceinline__ float minus_log2_tail(BF16, float t) {  // of tail * 2^8; 2^-14 of it for t up to 13.3
  float p = 1.87999963e-9f;
  p = fmaf(p, t, -1.37894802e-7f);
  p = fmaf(p, t, 4.44577751e-6f);
  p = fmaf(p, t, -8.33891646e-5f);
  p = fmaf(p, t, 1.01886423e-3f);
  p = fmaf(p, t, -8.65723714e-3f);
  p = fmaf(p, t, 5.39311199e-2f);
  p = fmaf(p, t, 4.58825194e-1f);
  p = fmaf(p, t, 1.15096387f);
  return fmaf(p, t, -6.99996841f);
}
__device__ __forceinline__ float minus_log2_tail(F16, float t) {  // 2^-17.5 for t up to 6
  float p = 1.83480659e-6f;
  p = fmaf(p, t, -6.15981848e-5f);
  p = fmaf(p, t, 9.30523879e-4f);
  p = fmaf(p, t, -8.50788659e-3f);
  p = fmaf(p, t, 5.39600589e-2f);
  p = fmaf(p, t, 4.58464406e-1f);
  p = fmaf(p, t, 1.15125104f);
  return fmaf(p, t, 0.999995295f);
}

// A bf16 may be as small as an fp32: t * tail still is one where the tail is none.
template <typename T>
constexpr float kScale = 1.0f;
template <>
inline constexpr float kScale<BF16> = 0.00390625f;  // 2^-8

// Where t * tail is nothing beside T's smallest number.
template <typename T>
constexpr float kFarthest = 14.0f;
template <>
inline constexpr float kFarthest<BF16> = 13.3f;
template <>
inline constexpr float kFarthest<F16> = 6.0f;

template <typename T>
__device__ __forceinline__ float gelu_erf(float x) {
  const float t = fminf(fabsf(x), kFarthest<T>), positive = positive_part(x);
  if constexpr (sizeof(T) == 2) {
    return fmaf(-t * kScale<T>, exp2_fast(-minus_log2_tail(T{}, t)), positive);
  } else {
    // The tail is exp(-t^2 / 2) * n / d: polynomials with positive coefficients, within 2^-24.8.
    float n = 4.39639523e-3f, d = 1.10200594e-2f;
    n = fmaf(n, t, 4.24950974e-2f), d = fmaf(d, t, 1.06523690e-1f);
    n = fmaf(n, t, 1.88714673e-1f), d = fmaf(d, t, 4.83946419e-1f);
    n = fmaf(n, t, 4.45616814e-1f), d = fmaf(d, t, 1.22514410f);
    n = fmaf(n, t, 5.00000005e-1f), d = fmaf(d, t, 1.68911883f);
    const float quotient = n * reciprocal_fast(fmaf(d, t, 1.0f));
    return fmaf(-t * quotient, exp2_fast(t * (t * -0.721347520444f)), positive);
  }
}

// The tail is e / (1 + e) with e = exp(-2 sqrt(2 / pi) * (t + 0.044715 t^3)) = h^2; t * h is in range where e is not.
template <typename T>
__device__ __forceinline__ float gelu_tanh(float x) {
  const float t = fminf(fabsf(x), 14.0f), positive = positive_part(x);
  const float h = exp2_fast(t * fmaf(t * t, -0.0514716198f, -1.15110410f));
  return fmaf(-(t * h) * reciprocal_fast(fmaf(h, h, 1.0f)), h, positive);
}

template <typename T, bool TANH>
__device__ __forceinline__ float gelu(float x) {
  if constexpr (TANH) {
    return gelu_tanh<T>(x);
  } else {
    return gelu_erf<T>(x);
  }
}
