// The same for rows that have their modulation in common: a block takes several of them, and each of its threads computes
// the modulation of its columns once, in fp32, and holds it in registers.
//
// What this saves is instructions, traffic between L1 and the registers, and barriers: four rows of modulation loaded,
// converted and added up for every row are most of what adaln_rows does.
#pragma once
#include "adaln.cuh"

namespace adaln {

// In fp32, and on Blackwell, what fills 1,536 threads leaves a thread fewer registers than it needs.
template <typename T, int TPR, int BLOCKS>
constexpr int kGroupBlocks = (sizeof(T) == 4 && TPR * BLOCKS == kSmThreads) || (TPR * BLOCKS == 1536 && !kUsed<kOldest, 99>)
                                 ? BLOCKS - 1
                                 : BLOCKS;

// The sums of a thread's ROWS rows over the threads that share them.
template <int TPR, int ROWS>
__device__ __forceinline__ void group_sums(float (&v)[ROWS], RowScratch<(TPR + 31) / 32, ROWS>& scratch) {
  if constexpr (TPR > 32) {
    block_sums<TPR / 32>(v, scratch);
  } else {
#pragma unroll
    for (int d = TPR / 2; d > 0; d /= 2)
#pragma unroll
      for (int r = 0; r < ROWS; ++r) v[r] += __shfl_xor_sync(0xffffffffu, v[r], d);
  }
}

// TPR threads share ROWS rows, of each of which a thread has NV packs. Up to 32 threads: a block of 128 has that many rows several
// times. Else a block has as many warps as the row takes. BLOCKS blocks an SM bound the registers.
template <typename T, int TPR, int NV, int ROWS, bool GATED, int BLOCKS, int FIRST>
__global__ void __launch_bounds__(kBlockThreads<TPR>, kUsed<FIRST> ? kGroupBlocks<T, TPR, BLOCKS> : 1)
    adaln_groups(const Arguments a) {
  if constexpr (!kUsed<FIRST>) {
    __trap();
    return;
  }
  static_assert(TPR <= 32 || TPR >= 128, "whole blocks or parts of a warp");
  constexpr int N = 16 / sizeof(T), kLanes = kBlockThreads<TPR> / TPR;  // rows at a time
  __shared__ alignas(16) RowScratch<(TPR + 31) / 32, ROWS> scratch, scratch_of_squares;
  wait_for_previous();

  // Blocks are numbered modulation by modulation, so that none has rows of two.
  const uint32_t modulation = a.blocks_per_modulation.quotient(blockIdx.x);
  const uint32_t begin = modulation * a.rows_of_modulation +
                         (blockIdx.x - modulation * a.blocks_of_modulation) * (kLanes * ROWS) +
                         (kLanes == 1 ? 0 : threadIdx.x / TPR);
  const uint32_t end = min((modulation + 1) * a.rows_of_modulation, a.rows);
  if (kLanes == 1 && begin >= end) return;  // the last modulation may have fewer rows than the others
  const int first = kLanes == 1 ? threadIdx.x : threadIdx.x % TPR, step = NV == 1 ? 0 : kLanes == 1 ? blockDim.x : TPR;
  const int left = kLanes == 1 || begin < end ? static_cast<int>(a.packs) - first : 0;
  // Where there are fewer rows, a thread repeats the last one, with the same result: no condition is needed at each element.
  const uint32_t rows = (end - begin + kLanes - 1) / kLanes;
  const auto there = [&](uint32_t r) { return kLanes > 1 || r < rows; };
  const auto row_at = [&](uint32_t r) { return static_cast<int64_t>(kLanes == 1 ? r : min(r, rows - 1) * kLanes); };

  Pack<T, N> x[ROWS][NV];
  {
    const T* row = static_cast<const T*>(a.x) + begin * a.x_stride + first * N;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * step < left) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
          if (there(r)) load<kCached>(x[r][v], row + row_at(r) * a.x_stride, v * step);
      }
    }
  }
  // An SM has few blocks of wide rows, and loads little while they sum up and store. So each block prefetches into L2 the rows
  // that the device reaches once it has started BLOCKS more blocks an SM. H200, us: layer_norm 16405 x 2128 39.1 (without
  // 42.8). The number of blocks that an SM in fact holds is no better a distance: 9000 x 5120 51.1 at three of 320 threads (at
  // two 49.8), 16000 x 3072 51.2 at four of 192 (at three 50.3).
  if constexpr (TPR >= 256 && NV > 1) {
    const uint32_t next = begin + a.sms * BLOCKS * ROWS + threadIdx.x;
    if (threadIdx.x < ROWS && next < a.rows) {
      prefetch_row(static_cast<const T*>(a.x) + next * a.x_stride, a.packs * 16);
      if constexpr (GATED) prefetch_row(static_cast<const T*>(a.h) + next * a.h_stride, a.packs * 16);
    }
  }
  // Before the gated residual, though they cost registers there: 2 to 3 % less time than behind its stores. Of two packs they
  // would cost too many. Of more packs, each is fetched where it is used; where a thread has several rows, while the pack before
  // it is used.
  constexpr bool kLate = GATED && NV > 1, kLast = NV > 2, kAhead = kLast && ROWS > 1;
  Modulation<T, N> m[kLast ? 1 : NV];
  const auto fetch_modulation = [&](int from, int to) {
    const T* scale_row = static_cast<const T*>(a.scale) + modulation * a.scale_stride;
    const T* shift_row = static_cast<const T*>(a.shift) + modulation * a.shift_stride;
#pragma unroll
    for (int v = from; v < to; ++v)
      if (v * step < left) fetch(m[v - from], scale_row, shift_row, first + v * step, a);
  };
  if constexpr (!kLate && !kLast) fetch_modulation(0, NV);
  if constexpr (GATED) {
    const T* row = static_cast<const T*>(a.h) + begin * a.h_stride + first * N;
    T* sum_row = static_cast<T*>(a.sum) + begin * a.sum_stride + first * N;
    Pack<T, N> h[ROWS][NV];
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * step < left) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
          if (there(r)) load<kCached>(h[r][v], row + row_at(r) * a.h_stride, v * step);
      }
    }
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
    for (int v = 0; v < NV; ++v) {
      if (v * step < left) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          if (!there(r)) continue;
          add_gated(x[r][v], h[r][v], factor[v]);
          store(sum_row + row_at(r) * a.sum_stride, v * step, x[r][v]);
          keep_packed(x[r][v]);
        }
      }
    }
  }

  if constexpr (kLate) fetch_modulation(0, NV);
  if constexpr (kAhead) fetch_modulation(0, 1);
  float factor[kLast ? 1 : NV][N], addend[kLast ? 1 : NV][N];
  if constexpr (!kLast) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < left) combine(factor[v], addend[v], m[v], first + v * step, a);
  }

  float mean[ROWS] = {}, inverse[ROWS] = {};
  if (a.layer != 0) {
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * step < left) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
          if (there(r)) mean[r] = add_elements(x[r][v], mean[r]);
      }
    }
    group_sums<TPR>(mean, scratch);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) mean[r] *= a.inverse_width;
  }
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (v * step < left) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
        if (there(r)) inverse[r] = add_squares(x[r][v], mean[r], inverse[r]);
    }
  }
  group_sums<TPR>(inverse, scratch_of_squares);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    inverse[r] = rsqrtf(inverse[r] * a.inverse_width + a.eps);
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(x[r][v]);
  }

  T* out_row = static_cast<T*>(a.out) + begin * a.out_stride + first * N;
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (v * step < left) {
      if constexpr (kLast) {
        if constexpr (!kAhead) fetch_modulation(v, v + 1);
        combine(factor[0], addend[0], m[0], first + v * step, a);
        if (kAhead && v + 1 < NV) fetch_modulation(v + 1, v + 2);
      }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        if (!there(r)) continue;
        modulate(x[r][v], factor[kLast ? 0 : v], addend[kLast ? 0 : v], mean[r], inverse[r]);
        store(out_row + row_at(r) * a.out_stride, v * step, x[r][v]);
      }
    }
  }
}

}  // namespace adaln
