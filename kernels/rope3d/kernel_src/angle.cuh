// The model's angles, and their cosines and sines.
//
// The angle is a chain of fp32 roundings, and at 15,000 rad one unit of its last place is 1e-3 rad: each step here is
// the model's own (LTXVideoRotaryPosEmbed.forward). What the model leaves to a library (the power, cos and sin) is
// computed in double and rounded once: a table has some 20,000 entries, and the fp32 library functions need a stack
// for large arguments.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace rope3d {

// 2^x for |x| < 1000.
__device__ __forceinline__ double power_of_two(double x) {
  const double n = rint(x), f = (x - n) * 0.69314718055994530942;  // ln 2; |f| < 0.35, where f^12 / 12! < 1e-14
  double sum = 1.0;
#pragma unroll
  for (int k = 11; k > 0; --k) sum = fma(sum, f * (1.0 / k), 1.0);
  return sum * __longlong_as_double((static_cast<long long>(n) + 1023) << 52);
}

// linspace(0, 1, count)[i] as torch computes it: from the nearer end, the far half with one rounding.
__device__ __forceinline__ float linspace(int64_t i, int64_t count, float step) {
  if (i < count / 2) return __fmul_rn(step, static_cast<float>(i));
  return count == 1 ? 0.0f : fmaf(-step, static_cast<float>(count - 1 - i), 1.0f);
}

// theta ** linspace(0, 1, count)[i] * pi / 2
__device__ __forceinline__ float frequency(int64_t i, int64_t count, float step, double log2_theta) {
  const float power = __double2float_rn(power_of_two(linspace(i, count, step) * log2_theta));
  return __fmul_rn(power, 3.14159265358979f) * 0.5f;
}

// frequency * (coordinate * 2 - 1)
__device__ __forceinline__ float angle(float frequency, float coordinate) {
  return __fmul_rn(frequency, fmaf(coordinate, 2.0f, -1.0f));  // twice is exact, so this rounds as the model does
}

// cos and sin of an angle of up to 2^50 rad, rounded once.
__device__ __forceinline__ float2 cos_sin(float angle) {
  // pi / 2 in two doubles: what is left of n of them is exact to 2^-50 rad.
  const double n = rint(angle * 0.63661977236758134308);
  double r = fma(-n, 1.57079632679489655800, static_cast<double>(angle));
  r = fma(-n, 6.12323399573676603587e-17, r);
  const double square = r * r;
  // Taylor series: |r| < 0.79, where r^15 / 15! < 3e-14.
  double cosine = 1.0, sine = 1.0;
#pragma unroll
  for (int k = 14; k > 0; k -= 2) cosine = fma(cosine, square * (-1.0 / (k * (k - 1))), 1.0);
#pragma unroll
  for (int k = 12; k > 0; k -= 2) sine = fma(sine, square * (-1.0 / (k * (k + 1))), 1.0);
  sine *= r;
  const long long quarter = static_cast<long long>(n);
  const double x = quarter & 1 ? -sine : cosine, y = quarter & 1 ? cosine : sine;
  return make_float2(__double2float_rn(quarter & 2 ? -x : x), __double2float_rn(quarter & 2 ? -y : y));
}

}  // namespace rope3d
