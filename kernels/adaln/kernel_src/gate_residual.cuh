// sum = h + x * (gate + gate_table), without a norm: elements that know nothing of each other.
//
// All packs of all rows, each of 16 bytes, a word or an element, are one sequence with one pack a thread, so that every thread
// is busy whatever the width. A pack's row and its row of the gate are two divisions by numbers that the host knows. Where rows
// lie side by side (FLAT), x and h are on their way before those.
#pragma once
#include "dependent.cuh"
#include "modulate.cuh"
#include "tuning.h"
#include "words.cuh"

namespace adaln {

template <typename T, int N, bool FLAT>
__global__ void __launch_bounds__(kGateThreads) gate_residual_packs(const Arguments a) {
  wait_for_previous();
  const uint32_t i = blockIdx.x * kGateThreads + threadIdx.x;
  if (i >= a.packs) return;
  Pack<T, N> x, h, gate, gate_table;
  if constexpr (FLAT) {
    load<kCached>(x, static_cast<const T*>(a.x), i);
    load<kCached>(h, static_cast<const T*>(a.h), i);
  }
  const uint32_t row = a.packs_per_row.quotient(i), column = i - row * static_cast<uint32_t>(a.width / N);
  if constexpr (!FLAT) {
    load<kCached>(x, static_cast<const T*>(a.x) + row * a.x_stride, column);
    load<kCached>(h, static_cast<const T*>(a.h) + row * a.h_stride, column);
  }
  if (a.gate != nullptr) load<kCached>(gate, modulation_row<T>(a.gate, a.gate_stride, row, a), column);
  if (a.gate_table != nullptr) load<kCached>(gate_table, static_cast<const T*>(a.gate_table), column);
  float factor[N];
  combine(factor, gate, gate_table, a);
  add_gated(x, h, factor);
  if constexpr (FLAT) {
    store(static_cast<T*>(a.sum), i, x);
  } else {
    store(static_cast<T*>(a.sum) + row * a.sum_stride, column, x);
  }
}

// What a row has from an element on, and behind its last, the row that follows: `here` is the address of the element, `next` that
// of the following row less the `left` elements before it.
template <typename T, int N>
__device__ __forceinline__ void load_over_end(float (&f)[N], const T* here, const T* next, uint32_t left) {
#pragma unroll
  for (uint32_t j = 0; j < N; ++j) f[j] = to_float<T>((j < left ? here : next)[j].bits);
}

// The same where rows lie side by side, but are no whole number of 16 bytes: packs of the one sequence, of which some are of two
// rows. `packs_per_row` is of elements.
template <typename T>
__global__ void __launch_bounds__(kGateThreads) gate_residual_elements(const Arguments a) {
  wait_for_previous();
  constexpr uint32_t N = 16 / sizeof(T);
  const uint32_t i = blockIdx.x * kGateThreads + threadIdx.x, first = i * N, width = static_cast<uint32_t>(a.width);
  if (i >= a.packs) return;
  const bool whole = first + N <= a.rows * width;  // as all are but the last
  Pack<T, N> x, h;
  if (whole) {
    load<kCached>(x, static_cast<const T*>(a.x), i);
    load<kCached>(h, static_cast<const T*>(a.h), i);
  }
  uint32_t row = a.packs_per_row.quotient(first), column = first - row * width;
  const uint32_t left = width - column;  // elements of the row
  const bool of_two_rows = whole && left < N;
  // Most warps have such a pack if rows are narrow. Then all of their packs are fetched an element at a time, in one path.
  const bool any_of_two_rows = __any_sync(0xffffffffu, of_two_rows) != 0;
  if (whole && width >= N) {
    const T* const gate_row = modulation_row<T>(a.gate, a.gate_stride, row, a);
    float factor[N];
    if (any_of_two_rows && a.gate != nullptr) {
      const T* const next = modulation_row<T>(a.gate, a.gate_stride, row + of_two_rows, a) - left;
      load_over_end(factor, gate_row + column, next, left);
      if (a.gate_table != nullptr) {
        const T* const table = static_cast<const T*>(a.gate_table);
        float g[N];
        load_over_end(g, table + column, table - left, left);
#pragma unroll
        for (uint32_t j = 0; j < N; ++j) factor[j] += g[j];
      }
    } else {
      gate_at(factor, gate_row, static_cast<int>(column), a);
    }
    add_gated(x, h, factor);
    store(static_cast<T*>(a.sum), i, x);
    return;
  }
  for (uint32_t j = 0; j < N && row < a.rows; ++j) {
    Pack<T, 1> one, one_h;
    load<kCached>(one, static_cast<const T*>(a.x), first + j);
    load<kCached>(one_h, static_cast<const T*>(a.h), first + j);
    float factor[1];
    gate_at(factor, modulation_row<T>(a.gate, a.gate_stride, row, a), static_cast<int>(column), a);
    add_gated(one, one_h, factor);
    store(static_cast<T*>(a.sum), first + j, one);
    if (++column == width) column = 0, ++row;
  }
}

}  // namespace adaln
