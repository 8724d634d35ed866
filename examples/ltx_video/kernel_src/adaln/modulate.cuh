// The formulas, a pack at a time: gated residual, statistics, affine and modulation. All in fp32, rounded once.
//
// Whether a tensor is there is the same for a whole launch, so the branches are uniform.
#pragma once
#include "arguments.h"
#include "pack.cuh"

namespace adaln {
using namespace common;

template <typename T, int N>
__device__ __forceinline__ void add_pack(float (&f)[N], const Pack<T, N>& pack) {
  float g[N];
  unpack(pack, g);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] += g[j];
}

// f += row[i], or where there is no row, f as it is.
template <typename T, int N>
__device__ __forceinline__ void add_pack(float (&f)[N], const void* row, int64_t i) {
  if (row == nullptr) return;
  Pack<T, N> pack;
  load<kCached>(pack, static_cast<const T*>(row), i);
  add_pack(f, pack);
}

// x becomes h + x * gate, rounded to T: the norm sees what the next layer will.
template <typename T, int N>
__device__ __forceinline__ void add_gated(Pack<T, N>& x, const Pack<T, N>& h, const float (&gate)[N]) {
  float f[N], r[N];
  unpack(x, f);
  unpack(h, r);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] = fmaf(f[j], gate[j], r[j]);
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

// gate + gate_table, or 1 without a gate, of what was fetched of them.
template <typename T, int N>
__device__ __forceinline__ void combine(float (&factor)[N], const Pack<T, N>& gate, const Pack<T, N>& gate_table,
                                        const Arguments& a) {
#pragma unroll
  for (int j = 0; j < N; ++j) factor[j] = 1.0f;
  if (a.gate == nullptr) return;
  unpack(gate, factor);
  if (a.gate_table != nullptr) add_pack(factor, gate_table);
}

// What scale, shift and their tables have of a pack.
template <typename T, int N>
struct Modulation {
  Pack<T, N> scale, shift, scale_table, shift_table;
};

// Where there is no row, nothing is fetched.
template <typename T, int N>
__device__ __forceinline__ void fetch_rows(Modulation<T, N>& m, const T* scale_row, const T* shift_row, int64_t i,
                                           const Arguments& a) {
  if (a.scale != nullptr) load<kCached>(m.scale, scale_row, i);
  if (a.shift != nullptr) load<kCached>(m.shift, shift_row, i);
}
template <typename T, int N>
__device__ __forceinline__ void fetch_tables(Modulation<T, N>& m, int64_t i, const Arguments& a) {
  if (a.scale_table != nullptr) load<kCached>(m.scale_table, static_cast<const T*>(a.scale_table), i);
  if (a.shift_table != nullptr) load<kCached>(m.shift_table, static_cast<const T*>(a.shift_table), i);
}

// All four at once, so that their latencies overlap.
template <typename T, int N>
__device__ __forceinline__ void fetch(Modulation<T, N>& m, const T* scale_row, const T* shift_row, int64_t i,
                                      const Arguments& a) {
  fetch_rows(m, scale_row, shift_row, i, a);
  fetch_tables(m, i, a);
}

// Prefetches into L2 what fetch and combine load.
template <typename T, int N>
__device__ __forceinline__ void prefetch_pack(const void* row, int64_t i) {
  if (row != nullptr) asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const T*>(row) + i * N));
}
template <typename T, int N>
__device__ __forceinline__ void prefetch(const T* scale_row, const T* shift_row, int64_t i, const Arguments& a) {
  prefetch_pack<T, N>(a.scale != nullptr ? scale_row : nullptr, i);
  prefetch_pack<T, N>(a.shift != nullptr ? shift_row : nullptr, i);
  prefetch_pack<T, N>(a.scale_table, i);
  prefetch_pack<T, N>(a.shift_table, i);
  prefetch_pack<T, N>(a.weight, i);
  prefetch_pack<T, N>(a.bias, i);
}

// Prefetches into L2 what a row of 16 bytes or more has between multiples of 16 bytes.
template <typename T>
__device__ __forceinline__ void prefetch_row(const T* row, uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const uintptr_t at = reinterpret_cast<uintptr_t>(row), from = (at + 15) / 16 * 16;
  const uint32_t whole = (bytes - static_cast<uint32_t>(from - at)) / 16 * 16;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(whole) : "memory");
#endif
}

// factor = weight * (one + scale + scale_table), addend = bias * (one + scale + scale_table) + shift + shift_table.
template <typename T, int N>
__device__ __forceinline__ void combine(float (&factor)[N], float (&addend)[N], const Modulation<T, N>& m, int64_t i,
                                        const Arguments& a) {
#pragma unroll
  for (int j = 0; j < N; ++j) factor[j] = 0.0f, addend[j] = 0.0f;
  // 1 comes last: a tensor and its table may cancel each other.
  if (a.scale != nullptr) unpack(m.scale, factor);
  if (a.scale_table != nullptr) add_pack(factor, m.scale_table);
  if (a.shift != nullptr) unpack(m.shift, addend);
  if (a.shift_table != nullptr) add_pack(addend, m.shift_table);
#pragma unroll
  for (int j = 0; j < N; ++j) factor[j] += a.one;
  if (a.bias != nullptr) {
    float bias[N] = {};
    add_pack<T>(bias, a.bias, i);
#pragma unroll
    for (int j = 0; j < N; ++j) addend[j] = fmaf(bias[j], factor[j], addend[j]);
  }
  if (a.weight != nullptr) {
    float weight[N] = {};
    add_pack<T>(weight, a.weight, i);
#pragma unroll
    for (int j = 0; j < N; ++j) factor[j] *= weight[j];
  }
}

// The same for accesses of one element, of which a thread has many: whether a row is there is asked once for all of them.
// each(f) calls f(v) for those of the thread's NV elements that are there; the v-th is v * step behind the first.
template <typename T, int NV, typename Each>
__device__ __forceinline__ void load_elements(Pack<T, 1> (&pack)[NV], const void* row, int first, int step, Each each) {
  const T* from = static_cast<const T*>(row) + first;
  if (row != nullptr) each([&](int v) { load<kCached>(pack[v], from, v * step); });
}
template <typename T, int NV>
__device__ __forceinline__ void add_elements_of(float (&f)[NV][1], const Pack<T, 1> (&pack)[NV], const void* row) {
  if (row == nullptr) return;
#pragma unroll
  for (int v = 0; v < NV; ++v) add_pack(f[v], pack[v]);
}

template <typename T, int NV, typename Each>
__device__ __forceinline__ void gate_elements(float (&factor)[NV][1], const T* gate_row, int first, int step,
                                              const Arguments& a, Each each) {
  Pack<T, 1> gate[NV] = {}, gate_table[NV] = {};
  const void* const gate_data = a.gate != nullptr ? gate_row : nullptr;
  load_elements(gate, gate_data, first, step, each);
  load_elements(gate_table, a.gate_table, first, step, each);
#pragma unroll
  for (int v = 0; v < NV; ++v) factor[v][0] = a.gate != nullptr ? 0.0f : 1.0f;
  add_elements_of(factor, gate, gate_data);
  add_elements_of(factor, gate_table, a.gate_table);
}

template <typename T, int NV, typename Each>
__device__ __forceinline__ void combine_elements(float (&factor)[NV][1], float (&addend)[NV][1], const T* scale_row,
                                                 const T* shift_row, int first, int step, const Arguments& a, Each each) {
  Pack<T, 1> scale[NV] = {}, shift[NV] = {}, scale_table[NV] = {}, shift_table[NV] = {};
  const void* const scale_data = a.scale != nullptr ? scale_row : nullptr;
  const void* const shift_data = a.shift != nullptr ? shift_row : nullptr;
  load_elements(scale, scale_data, first, step, each);
  load_elements(shift, shift_data, first, step, each);
  load_elements(scale_table, a.scale_table, first, step, each);
  load_elements(shift_table, a.shift_table, first, step, each);
#pragma unroll
  for (int v = 0; v < NV; ++v) factor[v][0] = 0.0f, addend[v][0] = 0.0f;
  add_elements_of(factor, scale, scale_data);
  add_elements_of(factor, scale_table, a.scale_table);
  add_elements_of(addend, shift, shift_data);
  add_elements_of(addend, shift_table, a.shift_table);
#pragma unroll
  for (int v = 0; v < NV; ++v) factor[v][0] += a.one;
  if (a.bias != nullptr) {
    load_elements(shift, a.bias, first, step, each);
#pragma unroll
    for (int v = 0; v < NV; ++v) addend[v][0] = fmaf(to_float<T>(shift[v].word[0]), factor[v][0], addend[v][0]);
  }
  if (a.weight != nullptr) {
    load_elements(scale, a.weight, first, step, each);
#pragma unroll
    for (int v = 0; v < NV; ++v) factor[v][0] *= to_float<T>(scale[v].word[0]);
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

// x becomes x * inverse - mean * inverse, times factor, plus addend. In 16 bits that is as exact as (x - mean) * inverse, and
// takes an instruction less an element.
template <typename T, int N>
__device__ __forceinline__ void modulate_scaled(Pack<T, N>& x, const float (&factor)[N], const float (&addend)[N], float mean,
                                                float inverse) {
  if constexpr (sizeof(T) == 4) {
    modulate(x, factor, addend, mean, inverse);
  } else {
    float f[N];
    unpack(x, f);
#pragma unroll
    for (int j = 0; j < N; ++j) f[j] = fmaf(fmaf(f[j], inverse, -mean * inverse), factor[j], addend[j]);
    repack(x, f);
  }
}

// The same, and each tensor is fetched where it is used: slower, and in fewer registers. A tensor and its table are
// added up first: what they cancel must not be rounded at the size of one of them.
template <typename T, int N>
__device__ __forceinline__ void modulate_from(Pack<T, N>& x, const T* scale_row, const T* shift_row, float mean,
                                              float inverse, int64_t i, const Arguments& a) {
  float f[N], g[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] = (f[j] - mean) * inverse, g[j] = 0.0f;
  if (a.weight != nullptr) {
    add_pack<T>(g, a.weight, i);
#pragma unroll
    for (int j = 0; j < N; ++j) f[j] *= g[j];
  }
  add_pack<T>(f, a.bias, i);
#pragma unroll
  for (int j = 0; j < N; ++j) g[j] = 0.0f;
  if (a.scale != nullptr) add_pack<T>(g, scale_row, i);
  add_pack<T>(g, a.scale_table, i);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] *= a.one + g[j], g[j] = 0.0f;
  if (a.shift != nullptr) add_pack<T>(g, shift_row, i);
  add_pack<T>(g, a.shift_table, i);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] += g[j];
  repack(x, f);
}

// The row of a modulation tensor that a row of x has.
template <typename T>
__device__ __forceinline__ const T* modulation_row(const void* data, int64_t stride, uint32_t row, const Arguments& a) {
  return static_cast<const T*>(data) + a.rows_per_modulation.quotient(row) * stride;
}

}  // namespace adaln
