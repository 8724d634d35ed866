// The same for many rows that are no whole number of 16 bytes: a persistent block takes row after row.
//
// Its rows are a multiple of the phases apart (adaln_phase.cuh), so that all begin at the same place between multiples of 16 bytes
// and have the same columns in a pack. What they have in common, a modulation or the tables, the block computes once and keeps in
// shared memory. Groups of its warps have a row each at a time. While a group sums up and stores a row, its next one is copied to
// shared memory, each pack by the thread that reads it: the only barrier is that of the sums.
//
// The copies allocate lines in L1. Past it L2 would be asked for the sectors of 32 bytes between two parts of a warp's copy twice, a
// third more in all (Nsight Compute), and be the limit. H200, us, with tables on a LayerNorm: 8000 x 3001 28.0 (past L1 29.1; by
// adaln_phases 35.6), with a modulation each 6000 x 3001 37.6 (41.1; by adaln_uniform 42.0). Two rows of a group on their way
// take less at 96 MB (27.4), but longer at 384 MB, of rows with a modulation each and where shared memory is short; the rows behind
// prefetched into L2 take longer.
//
// As in adaln_affine the warps of a row exchange what they know of it once.
#pragma once
#include "adaln_affine.cuh"
#include "async_copy.cuh"
#include "unaligned.cuh"
#include "words.cuh"

namespace adaln {

// a.row_threads share a row, up to TPR: each has up to NV packs and at most one of the elements beside them. OWN: each row has a
// modulation of its own, and tables or none; else the rows of the block have theirs in common. Up to THREADS a block; 1,024 of them
// stand on an SM. Shared memory: persistent_places of launch.cu.
template <typename T, int TPR, int NV, bool GATED, bool OWN, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) adaln_persistent(const Arguments a) {
  if constexpr (!kUsed<kPersistentFrom>) {
    __trap();
    return;
  }
  constexpr int N = 16 / sizeof(T), kQuads = N / 4;  // float4 a pack
  constexpr int kWarps = TPR / 32;
  constexpr bool kRegisters = kUsed<90, 90>;  // other code takes a few more, and would spill
  // Places of 16 bytes a pack: of what is kept, and of what comes with a row.
  constexpr int kKept = (2 + GATED) * (OWN ? 1 : kQuads);
  enum { kX, kH, kGate = GATED ? 2 : 1, kScale = kGate + GATED, kShift, kPlaces = OWN ? kShift + 1 : kGate };
  // What the warps know of two rows a group; what is kept of the elements beside the packs, and of the packs; each group's next row.
  extern __shared__ uint4 places[];
  wait_for_previous();

  const int step = a.row_threads, groups = blockDim.x / step;
  const int group = threadIdx.x / step, thread = threadIdx.x - group * step, lane = threadIdx.x % 32, warp = thread / 32;
  const uint32_t modulation = a.blocks_per_modulation.quotient(blockIdx.x);
  const uint32_t end = min((modulation + 1) * a.rows_of_modulation, a.rows), apart = a.blocks_of_modulation * groups;
  uint32_t row = modulation * a.rows_of_modulation + (blockIdx.x - modulation * a.blocks_of_modulation);
  if (row >= end) return;
  const T* const x = static_cast<const T*>(a.x);
  const Share<T> own(x + row * a.x_stride, static_cast<int>(a.width), thread);
  int packs = own.left + thread;  // of a row
  row += group * a.blocks_of_modulation;

  const auto each_pack = [&](auto f) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < own.left) f(v);
  };
  const bool tables = a.scale_table != nullptr;
  float* const kept_one = reinterpret_cast<float*>(places + 2 * kWarps * groups);  // of factor, addend and gate 16 each
  uint4* const kept = places + 2 * kWarps * groups + 12;
  uint4* const next = kept + (!OWN || tables ? kKept * packs : 0) + group * kPlaces * packs + thread;
  Pack<T, 1> next_one[kPlaces] = {};  // the element beside the packs
  const auto copy_row = [&](int which, const void* data, int64_t at) {
    const T* const from = static_cast<const T*>(data) + at;
    each_pack([&](int v) { copy_16(next[which * packs + v * step], from + own.first + v * step * N); });
    if (own.beside) load<kCached>(next_one[which], from, own.element);
  };
  // Each is a commit, whether there is a row or not.
  const auto copy_rows = [&](uint32_t of) {
    if (of < end) {
      copy_row(kX, x, of * a.x_stride);
      if constexpr (GATED) copy_row(kH, a.h, of * a.h_stride);
      if constexpr (GATED && OWN) copy_row(kGate, a.gate, of * a.gate_stride);
    }
    commit_copies();
  };
  const auto copy_modulation = [&](uint32_t of) {
    if (of < end) {
      copy_row(kScale, a.scale, of * a.scale_stride);
      copy_row(kShift, a.shift, of * a.shift_stride);
    }
    commit_copies();
  };

  // The threads of the block share the packs of what is kept. All loads of a pack come before the first use.
  const auto keep_floats = [&](int which, int p, const float (&f)[N]) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q)
      reinterpret_cast<float4&>(kept[(which * kQuads + q) * packs + p]) = make_float4(f[4 * q], f[4 * q + 1], f[4 * q + 2], f[4 * q + 3]);
  };
  const auto kept_floats = [&](int which, int v, float (&f)[N]) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float4 w = reinterpret_cast<const float4&>(kept[(which * kQuads + q) * packs + thread + v * step]);
      f[4 * q] = w.x, f[4 * q + 1] = w.y, f[4 * q + 2] = w.z, f[4 * q + 3] = w.w;
    }
  };
  const int head = own.first - thread * N;
  float one_factor[1] = {}, one_addend[1] = {}, one_gate[1] = {};
  const bool keeps_one = own.beside && group == 0;
  if constexpr (OWN) {
    for (int p = threadIdx.x; tables && p < packs; p += blockDim.x) {
      const auto at = [&](const void* table) { return static_cast<const T*>(table) + head + p * N; };
      Words<T, N> scale, shift, gate;
      scale.fetch(at(a.scale_table)), shift.fetch(at(a.shift_table));
      if constexpr (GATED) gate.fetch(at(a.gate_table));
      const auto keep_pack = [&](int which, const Words<T, N>& words, const void* table) {
        Pack<T, N> pack;
        words.join(pack, at(table));
        kept[which * packs + p] = make_uint4(pack.word[0], pack.word[1], pack.word[2], pack.word[3]);
      };
      keep_pack(0, scale, a.scale_table), keep_pack(1, shift, a.shift_table);
      if constexpr (GATED) keep_pack(2, gate, a.gate_table);
    }
    if (tables && keeps_one) {
      add_words<T>(one_factor, a.scale_table, own.element), add_words<T>(one_addend, a.shift_table, own.element);
      if constexpr (GATED) add_words<T>(one_gate, a.gate_table, own.element);
    }
  } else {
    const T* const scale_row = static_cast<const T*>(a.scale) + modulation * a.scale_stride;
    const T* const shift_row = static_cast<const T*>(a.shift) + modulation * a.shift_stride;
    const T* const gate_row = static_cast<const T*>(a.gate) + modulation * a.gate_stride;
    const auto table = [](const void* data) { return static_cast<const T*>(data); };
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      const int element = head + p * N;
      float f[N], g[N];
      if constexpr (GATED && !kRegisters) {
        gate_at(f, gate_row, element, a), keep_floats(2, p, f);
        combine_at(f, g, scale_row, shift_row, element, a);
      } else {
        const auto fetch = [&](Words<T, N>& words, const void* there, const T* row_of) {
          if (there != nullptr) words.fetch(row_of + element);
        };
        const auto add = [&](float (&to)[N], const Words<T, N>& words, const void* there, const T* row_of) {
          if (there == nullptr) return;
          Pack<T, N> pack;
          words.join(pack, row_of + element);
          add_pack(to, pack);
        };
        Words<T, N> scale, shift, gate, scale_table, shift_table, gate_table;
        if constexpr (GATED) fetch(gate, a.gate, gate_row), fetch(gate_table, a.gate_table, table(a.gate_table));
        fetch(scale, a.scale, scale_row), fetch(scale_table, a.scale_table, table(a.scale_table));
        fetch(shift, a.shift, shift_row), fetch(shift_table, a.shift_table, table(a.shift_table));
        if constexpr (GATED) {
#pragma unroll
          for (int j = 0; j < N; ++j) f[j] = a.gate == nullptr ? 1.0f : 0.0f;
          add(f, gate, a.gate, gate_row), add(f, gate_table, a.gate_table, table(a.gate_table));
          keep_floats(2, p, f);
        }
#pragma unroll
        for (int j = 0; j < N; ++j) f[j] = g[j] = 0.0f;
        add(f, scale, a.scale, scale_row), add(f, scale_table, a.scale_table, table(a.scale_table));
        add(g, shift, a.shift, shift_row), add(g, shift_table, a.shift_table, table(a.shift_table));
        affine_at<T>(f, g, element, a);
      }
      keep_floats(0, p, f), keep_floats(1, p, g);
    }
    if (keeps_one) {
      combine_at(one_factor, one_addend, scale_row, shift_row, own.element, a);
      if constexpr (GATED) gate_at(one_gate, gate_row, own.element, a);
    }
  }
  if (keeps_one) kept_one[thread] = one_factor[0], kept_one[16 + thread] = one_addend[0], kept_one[32 + thread] = one_gate[0];
  copy_rows(row);
  if constexpr (OWN) copy_modulation(row);
  __syncthreads();

  float elements;  // of each row that this warp has
  {
    int whole = 0;
#pragma unroll
    for (int v = 0; v < NV; ++v) whole += __popc(__ballot_sync(0xffffffffu, v * step < own.left));
    elements = static_cast<float>(whole * N + __popc(__ballot_sync(0xffffffffu, own.beside)));
  }
  const float inverse_elements = 1.0f / fmaxf(elements, 1.0f);
  float4* of_row = reinterpret_cast<float4*>(places) + 2 * kWarps * group;
  int other = kWarps;  // of the next row
  for (; row < end; row += apart, of_row += other, other = -other) {
    // The places are then found anew for each row.
    if constexpr (OWN && !kRegisters) asm volatile("" : "+r"(packs));
    wait_for_copies<OWN ? 1 : 0>();
    Pack<T, N> now[NV];
    Pack<T, 1> one = next_one[kX];
    each_pack([&](int v) { now[v] = pack_at<T>(next[kX * packs + v * step]); });
    if constexpr (GATED) {
      T* const sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
      each_pack([&](int v) {
        float gate[N];
        if constexpr (OWN) {
          unpack(pack_at<T>(next[kGate * packs + v * step]), gate);
          if (tables) add_pack(gate, pack_at<T>(kept[2 * packs + thread + v * step]));
        } else {
          kept_floats(2, v, gate);
        }
        add_gated(now[v], pack_at<T>(next[kH * packs + v * step]), gate);
        store(sum_row + own.first, v * step, now[v]);
        keep_packed(now[v]);
      });
      if (own.beside) {
        float gate[1] = {kept_one[32 + thread]};
        if constexpr (OWN) add_pack(gate, next_one[kGate]);
        add_gated(one, next_one[kH], gate);
        store(sum_row, own.element, one);
      }
    }
    copy_rows(row + apart);

    float sum = 0.0f, mean = 0.0f, squares = 0.0f;
    if (a.layer != 0) {
      each_pack([&](int v) { sum = add_elements(now[v], sum); });
      if (own.beside) sum = add_elements(one, sum);
      sum = lane_sum<32>(sum);
      mean = sum * inverse_elements;
#pragma unroll
      for (int v = 0; v < NV; ++v) keep_packed(now[v]);
    }
    each_pack([&](int v) { squares = add_squares(now[v], mean, squares); });
    if (own.beside) squares = add_squares(one, mean, squares);
    squares = lane_sum<32>(squares);
    if (lane == 0) of_row[warp] = make_float4(sum, mean, squares, elements);
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(step) : "memory");  // of the group: 0 is that of the block
    float4 part = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (lane % kWarps < step / 32) part = of_row[lane % kWarps];
    const float inverse = of_warps<kWarps>(part, mean, a);
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(now[v]);

    if constexpr (OWN) wait_for_copies<1>();
    T* const out_row = static_cast<T*>(a.out) + row * a.out_stride;
    each_pack([&](int v) {
      float factor[N], addend[N];
      if constexpr (OWN) {
        unpack(pack_at<T>(next[kScale * packs + v * step]), factor), unpack(pack_at<T>(next[kShift * packs + v * step]), addend);
        if (tables) {
          add_pack(factor, pack_at<T>(kept[thread + v * step])), add_pack(addend, pack_at<T>(kept[packs + thread + v * step]));
        }
#pragma unroll
        for (int j = 0; j < N; ++j) factor[j] += a.one;
      } else {
        kept_floats(0, v, factor), kept_floats(1, v, addend);
      }
      modulate_scaled(now[v], factor, addend, mean, inverse);
      store(out_row + own.first, v * step, now[v]);
    });
    if (own.beside) {
      float factor[1] = {kept_one[thread]}, addend[1] = {kept_one[16 + thread]};
      if constexpr (OWN) add_pack(factor, next_one[kScale]), add_pack(addend, next_one[kShift]), factor[0] += a.one;
      modulate(one, factor, addend, mean, inverse);
      store(out_row, own.element, one);
    }
    if constexpr (OWN) copy_modulation(row + apart);
  }
}

}  // namespace adaln
