// The activations of a gate, and their derivatives, in fp32 and without branches.
//
// A forward kernel for 16-bit types takes 31 (gelu), 22 (tanh) and 19 (silu) instructions an element on an H100 in
// all, a backward one 39, 33 and 28; under the memory roof 57 and 95 have room. A T4, which must round to bf16 by hand:
// 36, 26 and 23, and 49, 43 and 38, of 76 and 127.
//
// Each is x * p(x) with a distribution function p: the normal one (gelu), or the logistic one (silu; gelu with the
// tanh approximation, since (1 + tanh z) / 2 = 1 / (1 + exp(-2z))). For negative x, p is as small as the product of
// the tail is, and must be right to the last place there: 1 + erf(z) or 1 + tanh(z) would cancel. So the tail is
// computed, and for positive x it is taken from 1.
//
// p comes as two factors, a * b, each about as small as its root: p itself would leave fp32's range long before
// value * x * p does, which is computed as (value * a) * (x * b).
#pragma once
#include "activation.h"
#include "fast_math.cuh"

namespace geglu {
using namespace common;

// p = a * b; the activation's derivative is a * d.
struct Factors {
  float a, b, d;
};

// With t = |x| the normal tail is exp(-t^2 / 2) * q(t). q falls slowly, from 1/2 to 0.4 / t, and is a quotient of
// polynomials with positive coefficients, so nothing cancels: within 2^-24.8 for t up to 19 (tune/fit_gelu.py).
__device__ __forceinline__ float scaled_normal_tail(float t) {
  float n = 4.39639523e-3f, d = 1.10200594e-2f;
  n = fmaf(n, t, 4.24950974e-2f), d = fmaf(d, t, 1.06523690e-1f);
  n = fmaf(n, t, 1.88714673e-1f), d = fmaf(d, t, 4.83946419e-1f);
  n = fmaf(n, t, 4.45616814e-1f), d = fmaf(d, t, 1.22514410f);
  n = fmaf(n, t, 5.00000005e-1f), d = fmaf(d, t, 1.68911883f);
  return n * reciprocal_fast(fmaf(d, t, 1.0f));
}

template <bool DERIVATIVE>
__device__ __forceinline__ Factors gelu(float x) {
  const float t = fminf(fabsf(x), 19.0f);                 // from 18.7 on h is 0
  const float h = exp2_fast(t * (t * -0.360673760222f));  // exp(-t^2 / 4)
  const float q = scaled_normal_tail(t), tail = h * q;    // the tail is h * tail
  Factors f = {x > 0.0f ? 1.0f : h, x > 0.0f ? fmaf(-tail, h, 1.0f) : tail, 0.0f};
  if (DERIVATIVE) {
    // p(x) + x * exp(-x^2 / 2) / sqrt(2 pi). An infinite x comes in here: the derivative there is NaN, as torch's.
    const float slope = h * fmaf(-0.398942280401f, fabsf(x), q);
    f.d = x > 0.0f ? fmaf(-slope, h, 1.0f) : slope;
  }
  return f;
}

// p(x) = 1 / (1 + exp(-y)), where h = exp(-|y| / 2); dy is the derivative of y.
template <bool DERIVATIVE>
__device__ __forceinline__ Factors logistic(float x, float h, float dy) {
  const float tail = h * h, r = reciprocal_fast(fmaf(h, h, 1.0f));
  Factors f = {x > 0.0f ? 1.0f : h, x > 0.0f ? r : h * r, 0.0f};
  if (DERIVATIVE) {
    // p + x * p * (1 - p) * dy
    const float rest = x > 0.0f ? tail * r : r;  // 1 - p
    f.d = fmaf(x * f.b, rest * dy, f.b);
  }
  return f;
}

template <bool DERIVATIVE>
__device__ __forceinline__ Factors gelu_tanh(float x) {
  // y = 2 sqrt(2 / pi) * (x + 0.044715 x^3)
  const float t = fminf(fabsf(x), 14.0f), square = t * t;  // there h is 0
  const float h = exp2_fast(t * fmaf(square, -0.0514716198f, -1.15110410f));
  return logistic<DERIVATIVE>(x, h, fmaf(square, 0.214064449f, 1.59576912f));
}

template <bool DERIVATIVE>
__device__ __forceinline__ Factors silu(float x) {
  return logistic<DERIVATIVE>(x, exp2_fast(fabsf(x) * -0.721347520444f), 1.0f);
}

template <Activation A, bool DERIVATIVE>
__device__ __forceinline__ Factors activate(float x) {
  if constexpr (A == kGelu) return gelu<DERIVATIVE>(x);
  if constexpr (A == kGeluTanh) return gelu_tanh<DERIVATIVE>(x);
  if constexpr (A == kSilu) return silu<DERIVATIVE>(x);
}

}  // namespace geglu
