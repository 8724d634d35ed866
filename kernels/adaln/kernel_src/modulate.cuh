// The formulas, a pack at a time: gated residual, statistics, affine and modulation. All in fp32, rounded once.
#pragma once
#include "arguments.h"
#include "pack.cuh"

// A row of a modulation tensor; null where there is no tensor.
template <typename T>
__device__ __forceinline__ const T* modulation_row(const void* data, int64_t stride, uint32_t modulation) {
  return data != nullptr ? static_cast<const T*>(data) + modulation * stride : nullptr;
}

// Pack i of a row that may be missing: no load then, and zeros.
template <typename T, int N>
__device__ __forceinline__ void fetch(Pack<T, N>& pack, const void* data, int64_t i) {
  pack = {};
  if (data != nullptr) load<kCached>(pack, static_cast<const T*>(data), i);
}

// gate + gate_table; without gate: 1.
template <typename T, int N>
__device__ __forceinline__ void fetch_gate(float (&gate)[N], uint32_t modulation, int64_t i, const Arguments& a) {
  Pack<T, N> pack, table;
  float g[N];
  fetch(pack, modulation_row<T>(a.gate, a.gate_stride, modulation), i);
  fetch(table, a.gate_table, i);
  unpack(pack, gate);
  unpack(table, g);
#pragma unroll
  for (int j = 0; j < N; ++j) gate[j] = a.gate != nullptr ? gate[j] + g[j] : 1.0f;
}

// x becomes h + x * gate, rounded to T: the norm sees what the next layer will.
template <typename T, int N>
__device__ __forceinline__ void add_gated(Pack<T, N>& x, const Pack<T, N>& h, const float (&gate)[N], const Arguments& a) {
  float f[N], r[N];
  unpack(x, f);
  unpack(h, r);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] = a.gate != nullptr ? f[j] * gate[j] + r[j] : f[j] + r[j];
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

// What the norm is multiplied with, weight * (1 + scale + scale_table), and what is added to the product,
// bias * (1 + scale + scale_table) + shift + shift_table. All is on its way before any of it is used.
template <typename T, int N>
__device__ __forceinline__ void fetch_modulation(float (&factor)[N], float (&addend)[N], uint32_t modulation, int64_t i,
                                                 const Arguments& a) {
  Pack<T, N> scale, scale_table, shift, shift_table;
  float g[N];
  fetch(scale, modulation_row<T>(a.scale, a.scale_stride, modulation), i);
  fetch(scale_table, a.scale_table, i);
  fetch(shift, modulation_row<T>(a.shift, a.shift_stride, modulation), i);
  fetch(shift_table, a.shift_table, i);
  unpack(scale, factor);
  unpack(scale_table, g);
#pragma unroll
  for (int j = 0; j < N; ++j) factor[j] += g[j] + 1.0f;
  unpack(shift, addend);
  unpack(shift_table, g);
#pragma unroll
  for (int j = 0; j < N; ++j) addend[j] += g[j];
  if (a.bias != nullptr) {
    Pack<T, N> bias;
    load<kCached>(bias, static_cast<const T*>(a.bias), i);
    unpack(bias, g);
#pragma unroll
    for (int j = 0; j < N; ++j) addend[j] = fmaf(g[j], factor[j], addend[j]);
  }
  if (a.weight != nullptr) {
    Pack<T, N> weight;
    load<kCached>(weight, static_cast<const T*>(a.weight), i);
    unpack(weight, g);
#pragma unroll
    for (int j = 0; j < N; ++j) factor[j] *= g[j];
  }
}

// x becomes (x - mean) * inverse * factor + addend.
template <typename T, int N>
__device__ __forceinline__ void modulate(Pack<T, N>& x, const float (&factor)[N], const float (&addend)[N], float mean,
                                         float inverse) {
  float f[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] = fmaf((f[j] - mean) * inverse, factor[j], addend[j]);
  repack(x, f);
}
