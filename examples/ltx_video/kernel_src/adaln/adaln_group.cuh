// The same for rows that have their modulation in common: a block takes ROWS of them at once, and each
// of its threads computes the modulation of its columns once, in fp32, and holds it in registers.
//
// What this saves is instructions, traffic between L1 and the registers, and barriers: four rows of modulation loaded,
// converted and added up for every row are most of what adaln_rows does.
#pragma once
#include "adaln.cuh"

namespace adaln {

// In fp32, what fills an SM of 1,536 threads leaves a thread fewer registers than it needs.
template <typename T, int TPR, int BLOCKS>
constexpr int kGroupBlocks = sizeof(T) == 4 && TPR * BLOCKS == kSmThreads ? BLOCKS - 1 : BLOCKS;

// A thread has NV packs of N elements of each row, and a block as many warps as that takes, up to TPR threads; BLOCKS blocks of
// so many an SM bound the registers.
template <typename T, int N, int TPR, int NV, int ROWS, bool GATED, int BLOCKS, int FIRST>
__global__ void __launch_bounds__(TPR, kUsed<FIRST> ? kGroupBlocks<T, TPR, BLOCKS> : 1) adaln_groups(const Arguments a) {
  if constexpr (!kUsed<FIRST>) {
    __trap();
    return;
  }
  __shared__ alignas(16) RowScratch<TPR / 32, ROWS> scratch, scratch_of_squares;
  wait_for_previous();

  // Blocks are numbered modulation by modulation, so that none has rows of two.
  const uint32_t modulation = a.blocks_per_modulation.quotient(blockIdx.x);
  const uint32_t begin = modulation * a.rows_of_modulation + (blockIdx.x - modulation * a.blocks_of_modulation) * ROWS;
  const uint32_t end = min((modulation + 1) * a.rows_of_modulation, a.rows);
  if (begin >= end) return;  // the last modulation may have fewer rows than the others
  const uint32_t rows = end - begin;
  const int first = threadIdx.x, step = NV == 1 ? 0 : blockDim.x, left = static_cast<int>(a.packs) - first;

  Pack<T, N> x[ROWS][NV];
  {
    const T* row = static_cast<const T*>(a.x) + begin * a.x_stride + first * N;
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (r < rows && v * step < left) load<kCached>(x[r][v], row + r * a.x_stride, v * step);
  }
  // Before the gated residual, though they cost registers there: 2 to 3 % less time than behind its stores. Of two packs they
  // would cost too many.
  constexpr bool kLate = GATED && NV > 1;
  Modulation<T, N> m[NV];
  const auto fetch_modulation = [&] {
    const T* scale_row = static_cast<const T*>(a.scale) + modulation * a.scale_stride;
    const T* shift_row = static_cast<const T*>(a.shift) + modulation * a.shift_stride;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < left) fetch(m[v], scale_row, shift_row, first + v * step, a);
  };
  if constexpr (!kLate) fetch_modulation();
  if constexpr (GATED) {
    const T* row = static_cast<const T*>(a.h) + begin * a.h_stride + first * N;
    T* sum_row = static_cast<T*>(a.sum) + begin * a.sum_stride + first * N;
    Pack<T, N> h[ROWS][NV];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (r < rows && v * step < left) load<kCached>(h[r][v], row + r * a.h_stride, v * step);
    const T* gate_row = static_cast<const T*>(a.gate) + modulation * a.gate_stride;
    float factor[NV][N];
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * step < left) {
        Pack<T, N> gate, gate_table;
        if (a.gate != nullptr) load<kCached>(gate, gate_row, first + v * step);
        if (a.gate_table != nullptr) load<kCached>(gate_table, static_cast<const T*>(a.gate_table), first + v * step);
        combine(factor[v], gate, gate_table, a);
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int v = 0; v < NV; ++v) {
        if (r < rows && v * step < left) {
          add_gated(x[r][v], h[r][v], factor[v]);
          store(sum_row + r * a.sum_stride, v * step, x[r][v]);
          keep_packed(x[r][v]);
        }
      }
    }
  }

  if constexpr (kLate) fetch_modulation();
  float factor[NV][N], addend[NV][N];
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (v * step < left) combine(factor[v], addend[v], m[v], first + v * step, a);

  float mean[ROWS], inverse[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) mean[r] = 0.0f;
  if (a.layer != 0) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (r < rows && v * step < left) mean[r] = add_elements(x[r][v], mean[r]);
    block_sums<TPR / 32>(mean, scratch);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) mean[r] *= a.inverse_width;
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    inverse[r] = 0.0f;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (r < rows && v * step < left) inverse[r] = add_squares(x[r][v], mean[r], inverse[r]);
  }
  block_sums<TPR / 32>(inverse, scratch_of_squares);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    inverse[r] = rsqrtf(inverse[r] * a.inverse_width + a.eps);
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(x[r][v]);
  }

  T* out_row = static_cast<T*>(a.out) + begin * a.out_stride + first * N;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (r < rows && v * step < left) {
        modulate(x[r][v], factor[v], addend[v], mean[r], inverse[r]);
        store(out_row + r * a.out_stride, v * step, x[r][v]);
      }
    }
  }
}

}  // namespace adaln
