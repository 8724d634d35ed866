// gelu in fp32 and without branches: x * p(x), where p is the normal distribution function, or with the tanh approximation
// a logistic one, since (1 + tanh z) / 2 = 1 / (1 + exp(-2z)).
//
// For negative x, p is as small as the tail is and must be right to the last place there: 1 + erf(z) or 1 + tanh(z) would
// cancel. So the tail is computed, and for positive x it is taken from 1. It is the square of h times something harmless,
// and h comes in last, because the square leaves fp32's normal range long before x * p does.
#pragma once
#include "fast_math.cuh"

namespace elementwise {
using namespace common;

// With t = |x| the normal tail is exp(-t^2 / 2) * q(t), and q is a quotient of polynomials with positive coefficients, so
// nothing cancels: within 2^-24.8 for t up to 19 (kernels/geglu/tune/fit_gelu.py).
__device__ __forceinline__ float gelu_exact(float x) {
  const float t = fminf(fabsf(x), 19.0f);                 // from 18.7 on h is 0
  const float h = exp2_fast(t * (t * -0.360673760222f));  // exp(-t^2 / 4)
  float n = 4.39639523e-3f, d = 1.10200594e-2f;
  n = fmaf(n, t, 4.24950974e-2f), d = fmaf(d, t, 1.06523690e-1f);
  n = fmaf(n, t, 1.88714673e-1f), d = fmaf(d, t, 4.83946419e-1f);
  n = fmaf(n, t, 4.45616814e-1f), d = fmaf(d, t, 1.22514410f);
  n = fmaf(n, t, 5.00000005e-1f), d = fmaf(d, t, 1.68911883f);
  const float tail = h * (n * reciprocal_fast(fmaf(d, t, 1.0f)));  // the normal tail is h * tail
  return x > 0.0f ? x * fmaf(-tail, h, 1.0f) : h * (x * tail);
}

__device__ __forceinline__ float gelu_tanh(float x) {
  // exp(-|y| / 2) of y = 2 sqrt(2 / pi) * (x + 0.044715 x^3)
  const float t = fminf(fabsf(x), 14.0f);  // there h is 0
  const float h = exp2_fast(t * fmaf(t * t, -0.0514716198f, -1.15110410f)), r = reciprocal_fast(fmaf(h, h, 1.0f));
  return x > 0.0f ? x * r : h * (x * (h * r));
}

}  // namespace elementwise
