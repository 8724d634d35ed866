// sum = h + x * (gate + gate_table), without a norm: elements that know nothing of each other.
//
// All packs of all rows are one sequence, so that every thread has its NV of them whatever the width. A pack's row and
// its row of the gate are two divisions by numbers that the host knows. Where rows lie side by side (FLAT), x and h are
// on their way before those.
#pragma once
#include "modulate.cuh"

template <typename T, int N, int NV, bool FLAT>
__global__ void __launch_bounds__(256) gate_residual_packs(const Arguments a) {
  Pack<T, N> x[NV], h[NV], gate[NV], gate_table[NV];
  const uint32_t first = blockIdx.x * (blockDim.x * NV) + threadIdx.x;
  const uint32_t left = first < a.packs ? a.packs - first : 0;  // packs from this thread's first on
  if constexpr (FLAT) {
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * blockDim.x < left) {
        load<kStream>(x[v], static_cast<const T*>(a.x), first + v * blockDim.x);
        load<kStream>(h[v], static_cast<const T*>(a.h), first + v * blockDim.x);
      }
    }
  }
  uint32_t rows[NV], columns[NV];
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    rows[v] = a.packs_per_row.quotient(first + v * blockDim.x);
    columns[v] = first + v * blockDim.x - rows[v] * static_cast<uint32_t>(a.width / N);
  }
  if constexpr (!FLAT) {
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * blockDim.x < left) {
        load<kStream>(x[v], static_cast<const T*>(a.x) + rows[v] * a.x_stride, columns[v]);
        load<kStream>(h[v], static_cast<const T*>(a.h) + rows[v] * a.h_stride, columns[v]);
      }
    }
  }
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (v * blockDim.x < left) {
      if (a.gate != nullptr) load<kCached>(gate[v], modulation_row<T>(a.gate, a.gate_stride, rows[v], a), columns[v]);
      if (a.gate_table != nullptr) load<kCached>(gate_table[v], static_cast<const T*>(a.gate_table), columns[v]);
    }
  }
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (v * blockDim.x < left) {
      float factor[N];
      combine(factor, gate[v], gate_table[v], a);
      add_gated(x[v], h[v], factor);
      if constexpr (FLAT) {
        store(static_cast<T*>(a.sum), first + v * blockDim.x, x[v]);
      } else {
        store(static_cast<T*>(a.sum) + rows[v] * a.sum_stride, columns[v], x[v]);
      }
    }
  }
}
