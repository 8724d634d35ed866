// Holds kernel_src/activation.cuh against double precision on the host: every bf16 and f16 gate, and every 1021st f32.
// A minute or so:
//
//   g++ -O2 -mfma -std=c++17 -ffp-contract=off tune/accuracy.cpp -o accuracy && ./accuracy
//
// The card's exp2 and reciprocal are not the host's. PTX promises 2^-22 relative and one unit in the last place; here
// both are pushed to either end of that, in all four combinations. What is printed is the largest error of the stored
// result in units of the budget that `kernels verify` allows (src/oracle/gated.rs), which is half a unit of the output's
// type and the slack for arithmetic; and of the fp32 result before that rounding, what of the slack alone it takes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#define __device__
#define __forceinline__ inline
#include "../kernel_src/fast_math.cuh"
#define exp2_fast exp2_of_card
#define reciprocal_fast reciprocal_of_card

static float exp2_error, reciprocal_error;  // relative

static float exp2_fast(float x) {
  const double y = std::exp2(static_cast<double>(x)) * (1.0 + exp2_error);
  return y < 0x1p-126 ? 0.0f : static_cast<float>(y);
}
static float reciprocal_fast(float x) { return static_cast<float>(1.0 / x * (1.0 + reciprocal_error)); }

using std::fabs;
#include "../kernel_src/activation.cuh"
using namespace geglu;

enum Type { kF32, kF16, kBF16 };
const char* const kTypes[] = {"f32", "f16", "bf16"};
const char* const kActivations[] = {"gelu", "gelu tanh", "silu"};

double unit(Type type, double value) {
  const int bits = type == kF32 ? 23 : type == kF16 ? 10 : 7, least = type == kF16 ? -14 : -126;
  const int exponent = value == 0.0 ? least : std::max(std::ilogb(value), least);
  return std::ldexp(1.0, exponent - bits);
}

double round_to(Type type, float value) {
  const double u = unit(type, value);
  return std::nearbyint(value / u) * u;
}

struct Exact {
  double p, density_part, condition;  // act' = p + density_part; condition: what an error of the argument costs
};

Exact exact(Activation activation, double x) {
  if (activation == kGelu) {
    return {0.5 * std::erfc(-x * M_SQRT1_2), x * std::exp(-x * x / 2) * 0.5 * M_2_SQRTPI * M_SQRT1_2,
            x < 0 ? 2 * x * x : 0};
  }
  const double k = M_2_SQRTPI * M_SQRT1_2 * 2;  // 2 sqrt(2 / pi)
  const double y = activation == kSilu ? x : k * (x + 0.044715 * x * x * x);
  const double dy = activation == kSilu ? 1 : k * (1 + 3 * 0.044715 * x * x);
  const double p = y > 0 ? 1 / (1 + std::exp(-y)) : std::exp(y) / (1 + std::exp(y));
  const double rest = y < 0 ? 1 / (1 + std::exp(y)) : std::exp(-y) / (1 + std::exp(-y));
  return {p, x * p * rest * dy, y < 0 ? 4 * -y : 0};
}

struct Worst {
  double stored = 0, slack = 0;
  float x = 0, value = 0;
  void see(Type type, float got, double want, double allowed, float at, float with) {
    const double largest = type == kF16 ? 65504 : 3.3895e38, size = std::fabs(want);
    if (size > largest) return;
    const double s = std::fabs(round_to(type, got) - want) / (unit(type, size + allowed) / 2 + allowed);
    stored = std::max(stored, s == s ? s : INFINITY);
    // Beside the slack the last fp32 operation has half a unit of its own.
    const double of_slack = (std::fabs(got - want) - unit(kF32, size) / 2) / allowed;
    if (of_slack > slack) slack = of_slack, x = at, value = with;
  }
};

void one(Type type, Activation activation, float x, Worst& forward, Worst& d_gate) {
  const float values[] = {1.0f, 1.2890625f, type == kF16 ? 30000.0f : 0x1p100f, type == kF16 ? 0x1p-14f : 0x1p-60f};
  const Exact e = exact(activation, x);
  const Factors f = activation == kGelu       ? activate<kGelu, true>(x)
                    : activation == kGeluTanh ? activate<kGeluTanh, true>(x)
                                              : activate<kSilu, true>(x);
  const double relative = (16 + e.condition) * 0x1p-24, least = (1 + std::fabs(x)) * 0x1p-149;
  for (const float v : values) {
    const double want = v * (x * e.p), slack = std::fabs(want) * relative + v * least;
    forward.see(type, (v * f.a) * (x * f.b), want, slack, x, v);
    const float dy = 1.7109375f;
    const double slope = e.p + e.density_part, terms = e.p + std::fabs(e.density_part);
    d_gate.see(type, (dy * f.a) * (v * f.d), dy * v * slope,
               std::fabs(dy * v) * terms * relative + (1 + dy) * (1 + v) * least, x, v);
  }
}

int main() {
  double most = 0;
  for (const Activation activation : {kGelu, kGeluTanh, kSilu}) {
    for (const Type type : {kBF16, kF16, kF32}) {
      Worst forward, d_gate;
      const uint64_t step = type == kF32 ? 1021 : 1, end = type == kF32 ? uint64_t{1} << 32 : 65536;
      for (int errors = 0; errors < 4; ++errors) {
        exp2_error = errors & 1 ? 0x1p-22f : -0x1p-22f, reciprocal_error = errors & 2 ? 0x1p-23f : -0x1p-23f;
        for (uint64_t i = type == kF32 ? errors : 0; i < end; i += step) {
          const uint32_t bits = type == kBF16 ? i << 16 : i;
          float x;
          if (type == kF16) {
            const int exponent = bits >> 10 & 31;
            if (exponent == 31) continue;
            x = std::ldexp(static_cast<float>((bits & 1023) + (exponent ? 1024 : 0)), std::max(exponent, 1) - 25);
            x = bits >> 15 ? -x : x;
          } else {
            std::memcpy(&x, &bits, 4);
          }
          if (std::isfinite(x)) one(type, activation, x, forward, d_gate);
        }
      }
      std::printf("%-9s %-4s  out: stored %.3f, slack %.2f (%g * act(%g))  d_gate: stored %.3f, slack %.2f (act'(%g))\n",
                  kActivations[activation], kTypes[type], forward.stored, forward.slack, forward.value, forward.x,
                  d_gate.stored, d_gate.slack, d_gate.x);
      most = std::max({most, forward.stored, d_gate.stored});
    }
  }
  // Infinities and NaN, as torch on a card: an infinite gate gives NaN but for +infinity forward.
  for (const float x : {INFINITY, -INFINITY, NAN}) {
    const Factors all[] = {activate<kGelu, true>(x), activate<kGeluTanh, true>(x), activate<kSilu, true>(x)};
    for (const Factors& f : all) {
      const float y = f.a * (x * f.b), slope = f.a * f.d;
      if ((x > 0 ? y != INFINITY : !std::isnan(y)) || !std::isnan(slope)) {
        std::printf("act(%g) is %g, act' %g\n", x, y, slope);
        most = INFINITY;
      }
    }
  }
  return most <= 1.0 ? 0 : 1;
}
