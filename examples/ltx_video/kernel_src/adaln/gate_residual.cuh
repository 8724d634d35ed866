// sum = h + x * (gate + gate_table), without a norm: elements that know nothing of each other.
//
// All packs of all rows are one sequence with one pack a thread, so that every thread is busy whatever the width. A pack's
// row and its row of the gate are two divisions by numbers that the host knows. Where rows lie side by side (FLAT), x and h
// are on their way before those.
#pragma once
#include "dependent.cuh"
#include "modulate.cuh"
#include "tuning.h"

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

// The same where rows lie side by side, but are no whole number of 16 bytes: packs of the one sequence, of which some are of two
// rows. `packs_per_row` is of elements.
template <typename T>
__global__ void __launch_bounds__(kGateThreads) gate_residual_elements(const Arguments a) {
  wait_for_previous();
  constexpr uint32_t N = 16 / sizeof(T);
  const uint32_t i = blockIdx.x * kGateThreads + threadIdx.x, first = i * N, width = static_cast<uint32_t>(a.width);
  if (i >= a.packs) return;
  uint32_t row = a.packs_per_row.quotient(first), column = first - row * width;
  if (column + N <= width) {
    Pack<T, N> x, h;
    load<kCached>(x, static_cast<const T*>(a.x), i);
    load<kCached>(h, static_cast<const T*>(a.h), i);
    add_gated_at(x, h, modulation_row<T>(a.gate, a.gate_stride, row, a), static_cast<int>(column), static_cast<int>(width), a);
    store(static_cast<T*>(a.sum), i, x);
    return;
  }
  for (uint32_t j = 0; j < N && row < a.rows; ++j) {
    Pack<T, 1> x, h;
    load<kCached>(x, static_cast<const T*>(a.x), first + j);
    load<kCached>(h, static_cast<const T*>(a.h), first + j);
    add_gated_at(x, h, modulation_row<T>(a.gate, a.gate_stride, row, a), static_cast<int>(column), static_cast<int>(width), a);
    store(static_cast<T*>(a.sum), first + j, x);
    if (++column == width) column = 0, ++row;
  }
}

}  // namespace adaln
