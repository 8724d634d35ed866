// Functions of the special-function unit.
#pragma once

namespace common {

// 2^x within 2^-22, relative; 0 where that is below 2^-126. exp2f without its treatment of subnormal results.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x within a unit in the last place.
__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace common
