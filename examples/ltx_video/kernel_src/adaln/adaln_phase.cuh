// The same for rows that have their modulation in common and are no whole number of 16 bytes.
//
// With N elements in 16 bytes and rows so many elements apart, every P-th row begins at the same place between two multiples of
// 16 bytes, P = N / gcd(stride, N). Such rows are of one phase. A block takes several rows of one phase and one modulation: each
// thread has the same columns in all of them, by aligned accesses of 16 bytes, and computes the modulation of its columns once.
// adaln_unaligned does so for every row, which is most of its instructions.
#pragma once
#include "adaln.cuh"
#include "adaln_group.cuh"
#include "unaligned.cuh"
#include "words.cuh"

namespace adaln {

// Which rows of the launch a thread has: `count` of them from `first` on, `step` apart. A block, or a warp, takes ROWS rows of one
// phase for each of its LANES parts, which take turns. Neighbouring blocks have neighbouring rows, of different phases: what two
// rows have in one sector of 32 bytes meets in L2.
template <int ROWS, int LANES>
struct PhaseRows {
  uint32_t modulation, first, step;
  int count;  // none where it is 0 or less

  __device__ __forceinline__ PhaseRows(uint32_t block, uint32_t lane, const Arguments& a) {
    modulation = a.blocks_per_modulation.quotient(block);
    const uint32_t within = block - modulation * a.blocks_of_modulation, phases = 1u << a.phase_bits;
    first = modulation * a.rows_of_modulation + (within >> a.phase_bits) * (ROWS * LANES << a.phase_bits) + (within & (phases - 1));
    const uint32_t end = min((modulation + 1) * a.rows_of_modulation, a.rows);
    const int all = static_cast<int>(end - first + phases - 1) >> a.phase_bits;
    step = phases * LANES;
    count = all;
    if constexpr (LANES > 1) {
      const int part = static_cast<int>(lane) < all ? static_cast<int>(lane) : 0;  // where it has no row, it repeats the first's
      first += part * phases;
      count = (all - part + LANES - 1) / LANES;
    }
  }
};

// Blackwell's code spills in the 64 registers that two blocks of 512 threads leave it.
template <int TPR, int BLOCKS>
constexpr int kPhaseBlocks = TPR == 512 && !kUsed<kOldest, 99> ? BLOCKS - 1 : BLOCKS;

// Up to 32 threads a row: warps know nothing of each other. Else a block has as many warps as its rows take, up to TPR threads.
// Of each row a thread has NV packs and at most one of the elements beside them. BLOCKS blocks an SM bound the registers.
template <typename T, int TPR, int NV, int ROWS, bool GATED, int BLOCKS, int FIRST>
__global__ void __launch_bounds__(kBlockThreads<TPR>, kUsed<FIRST> ? kPhaseBlocks<TPR, BLOCKS> : 1)
    adaln_phases(const Arguments a) {
  if constexpr (!kUsed<FIRST>) {
    __trap();
    return;
  }
  static_assert(TPR == 16 || TPR == 32 || TPR >= 128, "parts of a warp that have 14 threads, or whole blocks");
  constexpr bool kWarps = TPR <= 32;
  constexpr int N = 16 / sizeof(T), kLanes = kWarps ? 32 / TPR : 1;
  __shared__ alignas(16) RowScratch<(TPR + 31) / 32, ROWS> scratch, scratch_of_squares;
  wait_for_previous();

  const PhaseRows<ROWS, kLanes> rows(kWarps ? blockIdx.x * (kBlockThreads<TPR> / 32) + threadIdx.x / 32 : blockIdx.x,
                                     threadIdx.x % 32 / TPR, a);
  if (rows.count <= 0) return;
  const int thread = kWarps ? threadIdx.x % TPR : threadIdx.x, step = kWarps ? TPR : blockDim.x;
  const T* const x_row = static_cast<const T*>(a.x) + rows.first * a.x_stride;
  const Share<T> own(x_row, static_cast<int>(a.width), thread);
  // Where there are fewer rows, a thread repeats the last one, with the same result: no condition is needed at each element.
  const auto each_row = [&](auto f) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) f(r);
  };
  // Calls f(r, where) with the address of an element of each row of a tensor. The distance to the next row is opaque to the
  // compiler: it would copy what the last row has in registers instead of loading it once more, and wait for it to do so.
  const auto each_address = [&](auto* data, int64_t stride, int element, auto f) {
    auto* where = data + rows.first * stride + element;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      f(r, where);
      int64_t distance = r + 1 < rows.count ? stride * rows.step : 0;
      asm volatile("" : "+l"(distance));
      where += distance;
    }
  };
  // Calls f(v) for the packs that the thread has.
  const auto each_pack = [&](auto f) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < own.left) f(v);
  };
  const auto load_rows = [&](Pack<T, N> (&packs)[ROWS][NV], Pack<T, 1> (&beside)[ROWS], const void* data, int64_t stride) {
    const T* const all = static_cast<const T*>(data);
    each_pack([&](int v) {
      each_address(all, stride, own.first, [&](int r, const T* at) { load<kCached>(packs[r][v], at, v * step); });
    });
    if (own.beside) each_address(all, stride, own.element, [&](int r, const T* at) { load<kCached>(beside[r], at, 0); });
    each_row([&](int r) { keep_packed(beside[r]); });  // else they are converted at once, and the loads below wait for these
  };

  Pack<T, N> x[ROWS][NV];
  Pack<T, 1> one[ROWS];
  load_rows(x, one, a.x, a.x_stride);
  if constexpr (GATED) {
    Pack<T, N> h[ROWS][NV];
    Pack<T, 1> one_h[ROWS];
    load_rows(h, one_h, a.h, a.h_stride);
    const T* const gate_row = static_cast<const T*>(a.gate) + rows.modulation * a.gate_stride;
    T* const sum = static_cast<T*>(a.sum);
    // sum may be x or h: what a part of the warp that repeats another one's rows reads must not be written yet.
    if constexpr (kLanes > 1) __syncwarp();
    each_pack([&](int v) {
      float factor[N];
      gate_at(factor, gate_row, own.first + v * step * N, a);
      each_address(sum, a.sum_stride, own.first, [&](int r, T* at) {
        add_gated(x[r][v], h[r][v], factor);
        store(at, v * step, x[r][v]);
        keep_packed(x[r][v]);
      });
    });
    if (own.beside) {
      float factor[1];
      gate_at(factor, gate_row, own.element, a);
      each_address(sum, a.sum_stride, own.element, [&](int r, T* at) {
        add_gated(one[r], one_h[r], factor);
        store(at, 0, one[r]);
      });
    }
  }

  const T* const scale_row = static_cast<const T*>(a.scale) + rows.modulation * a.scale_stride;
  const T* const shift_row = static_cast<const T*>(a.shift) + rows.modulation * a.shift_stride;
  // Where registers are few, the modulation is computed where it is used: that of the element beside the packs, and of the
  // packs themselves where one row has many.
  constexpr bool kLast = ROWS == 1 && NV > 2, kLastBeside = TPR * NV > 512;
  float factor[kLast ? 1 : NV][N], addend[kLast ? 1 : NV][N], one_factor[1], one_addend[1];
  if constexpr (!kLast)
    each_pack([&](int v) { combine_at(factor[v], addend[v], scale_row, shift_row, own.first + v * step * N, a); });
  if (!kLastBeside && own.beside) combine_at(one_factor, one_addend, scale_row, shift_row, own.element, a);

  float mean[ROWS] = {}, inverse[ROWS] = {};
  if (a.layer != 0) {
    each_pack([&](int v) { each_row([&](int r) { mean[r] = add_elements(x[r][v], mean[r]); }); });
    if (own.beside) each_row([&](int r) { mean[r] = add_elements(one[r], mean[r]); });
    group_sums<TPR>(mean, scratch);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) mean[r] *= a.inverse_width;
  }
  each_pack([&](int v) { each_row([&](int r) { inverse[r] = add_squares(x[r][v], mean[r], inverse[r]); }); });
  if (own.beside) each_row([&](int r) { inverse[r] = add_squares(one[r], mean[r], inverse[r]); });
  group_sums<TPR>(inverse, scratch_of_squares);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    inverse[r] = rsqrtf(inverse[r] * a.inverse_width + a.eps);
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(x[r][v]);
  }

  T* const out = static_cast<T*>(a.out);
  each_pack([&](int v) {
    if constexpr (kLast) combine_at(factor[0], addend[0], scale_row, shift_row, own.first + v * step * N, a);
    each_address(out, a.out_stride, own.first, [&](int r, T* at) {
      modulate(x[r][v], factor[kLast ? 0 : v], addend[kLast ? 0 : v], mean[r], inverse[r]);
      store(at, v * step, x[r][v]);
    });
  });
  if (own.beside) {
    if constexpr (kLastBeside) combine_at(one_factor, one_addend, scale_row, shift_row, own.element, a);
    each_address(out, a.out_stride, own.element, [&](int r, T* at) {
      modulate(one[r], one_factor, one_addend, mean[r], inverse[r]);
      store(at, 0, one[r]);
    });
  }
}

}  // namespace adaln
