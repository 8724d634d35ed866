// The formulas, a pack at a time: gated residual, statistics, affine and modulation. All in fp32, rounded once.
//
// Weight, bias and tables are the same for every row: they are fetched where they are used, out of L1, and cost no
// registers across the reduction. Whether they are there is the same for a whole launch, so the branches are uniform.
#pragma once
#include "arguments.h"
#include "pack.cuh"

// f += row[i], or where there is no row, f as it is.
template <typename T, int N>
__device__ __forceinline__ void add_pack(float (&f)[N], const void* row, int64_t i) {
  if (row == nullptr) return;
  Pack<T, N> pack;
  float g[N];
  load<kCached>(pack, static_cast<const T*>(row), i);
  unpack(pack, g);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] += g[j];
}

// x becomes h + x * (gate + gate_table), rounded to T: the norm sees what the next layer will. Without gate: h + x.
template <typename T, int N>
__device__ __forceinline__ void add_gated(Pack<T, N>& x, const Pack<T, N>& h, const Pack<T, N>& gate, int64_t i,
                                          const Arguments& a) {
  float f[N], g[N], r[N];
  unpack(x, f);
  if (a.gate != nullptr) {
    unpack(gate, g);
    add_pack<T>(g, a.gate_table, i);
#pragma unroll
    for (int j = 0; j < N; ++j) f[j] *= g[j];
  }
  unpack(h, r);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] += r[j];
  repack(x, f);
}

template <typename T, int N>
__device__ __forceinline__ float add_elements(const Pack<T, N>& pack, float total) {
  float f[N];
  unpack(pack, f);
#pragma unroll
  for (int j = 0; j < N; ++j) total += f[j];
  return total;
}

// mean is 0 for RMSNorm, and x - 0 is x.
template <typename T, int N>
__device__ __forceinline__ float add_squares(const Pack<T, N>& pack, float mean, float total) {
  float f[N];
  unpack(pack, f);
#pragma unroll
  for (int j = 0; j < N; ++j) total = fmaf(f[j] - mean, f[j] - mean, total);
  return total;
}

// x becomes n * (1 + scale + scale_table) + shift + shift_table, with n = (x - mean) * inverse * weight + bias.
template <typename T, int N>
__device__ __forceinline__ void modulate(Pack<T, N>& x, const Pack<T, N>& scale, const Pack<T, N>& shift, float mean,
                                         float inverse, int64_t i, const Arguments& a) {
  float f[N], g[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] = (f[j] - mean) * inverse;
  if (a.weight != nullptr) {
    Pack<T, N> weight;
    load<kCached>(weight, static_cast<const T*>(a.weight), i);
    unpack(weight, g);
#pragma unroll
    for (int j = 0; j < N; ++j) f[j] *= g[j];
  }
  add_pack<T>(f, a.bias, i);
  if (a.scale != nullptr) {
    unpack(scale, g);
    add_pack<T>(g, a.scale_table, i);
#pragma unroll
    for (int j = 0; j < N; ++j) f[j] *= 1.0f + g[j];
  }
  if (a.shift != nullptr) {
    unpack(shift, g);
    add_pack<T>(g, a.shift_table, i);
#pragma unroll
    for (int j = 0; j < N; ++j) f[j] += g[j];
  }
  repack(x, f);
}

// The row of a modulation tensor that a row of x has.
template <typename T>
__device__ __forceinline__ const T* modulation_row(const void* data, int64_t stride, uint32_t row, const Arguments& a) {
  return static_cast<const T*>(data) + a.rows_per_modulation.quotient(row) * stride;
}
