// The formulas, a pack at a time.
#pragma once
#include "arguments.h"
#include "pack.cuh"
#include "unaligned.cuh"

namespace rmsnorm_backward {
using namespace common;

template <typename T, int N>
__device__ __forceinline__ void set_ones(Pack<T, N>& weight) {
  float ones[N];
#pragma unroll
  for (int j = 0; j < N; ++j) ones[j] = 1.0f;
  repack(weight, ones);
}

template <typename T, int N>
__device__ __forceinline__ void load_weight(Pack<T, N>& weight, const Arguments& a, int64_t i) {
  if (a.weight != nullptr) {
    load<kCached>(weight, static_cast<const T*>(a.weight), i);
  } else {
    set_ones(weight);
  }
}

// The weight of the columns from `column` on, where packs of the rows do not begin at those of the weight.
template <typename T, int N>
__device__ __forceinline__ void load_weight_anywhere(Pack<T, N>& weight, const Arguments& a, int column) {
  if (a.weight != nullptr) {
    load_anywhere(weight, static_cast<const T*>(a.weight), column, static_cast<int>(a.width));
  } else {
    set_ones(weight);
  }
}

// What dy is multiplied by, weight + weight_offset: from a pack of weight, or as it is where it lies in registers in fp32.
template <typename T, int N>
__device__ __forceinline__ void get_factor(float (&w)[N], const Pack<T, N>& weight, float weight_offset) {
  unpack(weight, w);
#pragma unroll
  for (float& factor : w) factor += weight_offset;
}
template <int N>
__device__ __forceinline__ void get_factor(float (&w)[N], const float (&factor)[N], float) {
#pragma unroll
  for (int j = 0; j < N; ++j) w[j] = factor[j];
}

// x: the sum of x^2; y: that of g * x. W: a pack of weight, or N floats.
template <typename T, int N, typename W>
__device__ __forceinline__ void add_products(const Pack<T, N>& x, const Pack<T, N>& dy, const W& weight,
                                             float weight_offset, float2& total) {
  float f[N], g[N], w[N];
  unpack(x, f);
  unpack(dy, g);
  get_factor(w, weight, weight_offset);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    total.x = fmaf(f[j], f[j], total.x);
    total.y = fmaf(g[j] * w[j], f[j], total.y);
  }
}

// x becomes dx; dw gets dy * xhat added. scale is r, mean that of g * xhat.
template <typename T, int N, typename W>
__device__ __forceinline__ void gradient(Pack<T, N>& x, const Pack<T, N>& dy, const W& weight,
                                         float weight_offset, float scale, float mean, float (&dw)[N]) {
  float f[N], g[N], w[N];
  unpack(x, f);
  unpack(dy, g);
  get_factor(w, weight, weight_offset);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float xhat = f[j] * scale;
    dw[j] = fmaf(g[j], xhat, dw[j]);
    f[j] = scale * fmaf(-xhat, mean, g[j] * w[j]);
  }
  repack(x, f);
}

// keep_packed for fp32 too: without it the compiler keeps every g of the first use for the second one.
template <typename T, int N>
__device__ __forceinline__ void forget_products(Pack<T, N>& dy) {
#pragma unroll
  for (uint32_t& word : dy.word) asm volatile("" : "+r"(word));
}

}  // namespace rmsnorm_backward
