// sum = h + x * (gate + gate_table), without a norm: elements that know nothing of each other.
//
// All packs of all rows are one sequence, so that every thread has its NV of them whatever the width. A pack's row and
// its row of the gate are two divisions by numbers that the host knows.
#pragma once
#include "modulate.cuh"

template <typename T, int N, int NV>
__global__ void __launch_bounds__(256) gate_residual_packs(const Arguments a) {
  Pack<T, N> x[NV], h[NV], gate[NV];
  uint32_t rows[NV], columns[NV];
  const uint32_t first = blockIdx.x * (blockDim.x * NV) + threadIdx.x;
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (i < a.packs) {
      rows[v] = a.packs_per_row.quotient(i);
      columns[v] = i - rows[v] * static_cast<uint32_t>(a.width / N);
      load<kStream>(x[v], static_cast<const T*>(a.x) + rows[v] * a.x_stride, columns[v]);
      load<kStream>(h[v], static_cast<const T*>(a.h) + rows[v] * a.h_stride, columns[v]);
    }
  }
  if (a.gate != nullptr) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * blockDim.x < a.packs)
        load<kCached>(gate[v], modulation_row<T>(a.gate, a.gate_stride, rows[v], a), columns[v]);
  }
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (first + v * blockDim.x < a.packs) {
      add_gated(x[v], h[v], gate[v], columns[v], a);
      store(static_cast<T*>(a.sum) + rows[v] * a.sum_stride, columns[v], x[v]);
    }
  }
}
