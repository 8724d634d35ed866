// Normalised and modulated rows, alone or after a gated residual:
//
//   h' = h + x * (gate + gate_table)                                      (GATED; else h' is x)
//   out = norm(h') * (1 + scale + scale_table) + (shift + shift_table)    norm: RMSNorm or LayerNorm, weight and bias
//
// Every tensor but out, x (and sum, h) may be missing; layer_norm is this without modulation.
//
// LTX-Video (LTXVideoTransformerBlock): ada_values = scale_shift_table[6, width] + temb [B, T', 6, width], in the order
// shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp. So shift = temb[:, :, 0] is a pointer into temb with
// a row stride of 6 * width, shift_table = scale_shift_table[0], and rows_per_modulation is tokens / T'. A block is
//   adaln(norm1)                      n = norm1(h) * (1 + scale_msa) + shift_msa
//   gate_residual_in_place            h += attn1(n) * gate_msa
//   gate_residual_adaln, gate null    h += attn2(h);  n = norm2(h) * (1 + scale_mlp) + shift_mlp
//   gate_residual_adaln               h += ff(n) * gate_mlp;  n = the next block's norm1, with its table
// (The gate's table and the next block's scale and shift tables are of two blocks; temb is the same.)
//
// diffusers' AdaLayerNormZero: emb.chunk(6, dim=1) of [B, 6 * width] gives shift_msa, scale_msa, gate_msa, shift_mlp,
// scale_mlp, gate_mlp: pointers into emb with a row stride of 6 * width, rows_per_modulation = tokens, LayerNorm with
// eps 1e-6, no weight, no bias, no tables. x is adaln; gate_msa goes to gate_residual_adaln after the attention, with
// shift_mlp and scale_mlp as its modulation; gate_mlp to gate_residual. AdaLayerNormZeroSingle: chunk(3), the same.
// AdaLayerNormContinuous: chunk(2) is scale, shift; its norm may have weight and bias. LuminaRMSNormZero: no shift.
//
// Rounding: eager bf16 rounds the table's sum, 1 + scale, the norm, the product and the sum, to 8 bits each: up to some
// 2^-8 of each term. Here all of it is fp32 and out is rounded once; h' is rounded once, where eager rounds gate, x *
// gate and the sum. The norm is of h' as stored.
//
// The floor is memory: x (and h) are read once, out (and sum) written once; modulation rows come from L1 or L2. So a
// row stays in registers, packed, from its load to its store: TPR threads share it, and each holds NV packs of N
// elements. The variance is the mean of squared deviations from the mean, of the row in registers: no cancellation.
#pragma once
#include "arch.h"
#include "dependent.cuh"
#include "modulate.cuh"
#include "reduce.cuh"

namespace adaln {
using namespace common;

// Threads that an SM's 65,536 registers allow with 40, 64, 96 or 128 a thread, and so the blocks that must be resident.
template <int TPR, int NV, bool GATED>
constexpr int kThreadsForRegisters = NV == 1 && !GATED ? 1536 : NV == 2 && GATED ? 640 : NV > 2 ? 512 : 1024;
template <int TPR, int NV, bool GATED>
constexpr int kBlocks = TPR == 1024 ? 1
                                    : (kThreadsForRegisters<TPR, NV, GATED> < kSmThreads ? kThreadsForRegisters<TPR, NV, GATED>
                                                                                         : kSmThreads) / kBlockThreads<TPR>;

// Sums over a block of whole warps, at most WARPS, one for each of its rows; every thread gets them. A kernel gives each
// call a scratch of its own: there is no second barrier that would let one be written again.
template <int WARPS, int ROWS>
using RowScratch = float[ROWS][(WARPS + 3) / 4 * 4];

template <int WARPS, int ROWS>
__device__ __forceinline__ void block_sums(float (&v)[ROWS], RowScratch<WARPS, ROWS>& scratch) {
  constexpr int kPlaces = (WARPS + 3) / 4 * 4;
  const unsigned warps = blockDim.x / 32;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v[r] += __shfl_xor_sync(0xffffffffu, v[r], d);
    if (threadIdx.x % 32 == 0) scratch[r][threadIdx.x / 32] = v[r];
    if (threadIdx.x >= warps && threadIdx.x < kPlaces) scratch[r][threadIdx.x] = 0.0f;  // those of no warp
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    v[r] = 0.0f;
#pragma unroll
    for (int w = 0; w < kPlaces; w += 4) {
      if (w < warps) {
        const float4 s = *reinterpret_cast<const float4*>(scratch[r] + w);
        v[r] += (s.x + s.y) + (s.z + s.w);
      }
    }
  }
}

// The sum of a row: of its TPR threads, or where the block has one row, of all there are.
template <int TPR>
__device__ __forceinline__ float sum_of_row(float v, float (&scratch)[32]) {
  if constexpr (TPR < 128) {
    return row_sum<TPR>(v, scratch);
  } else {
    float one[1] = {v};
    block_sums<TPR / 32>(one, reinterpret_cast<RowScratch<TPR / 32, 1>&>(scratch));
    return one[0];
  }
}

// A block has several rows, or one of as many warps as it needs, up to TPR threads.
template <typename T, int N, int TPR, int NV, bool GATED>
__global__ void __launch_bounds__(kBlockThreads<TPR>, kBlocks<TPR, NV, GATED>) adaln_rows(const Arguments a) {
  constexpr int kRows = kBlockThreads<TPR> / TPR;  // rows a block
  // Where the modulation does not fit the registers beside the row, it is prefetched into L2 before the sums and loaded after.
  constexpr bool kLate = GATED && NV > 1 && TPR == 1024;
  // Where it fits only packed, its rows are loaded with x and stay packed until the sums are there. Tables, weight and bias,
  // which all rows have in common, come from L1 then: a pack's tables while the pack before it is used.
  constexpr bool kPacked = N > 1 && (NV > 2 || (NV == 2 && TPR <= 32));
  constexpr bool kOne = kLate || kPacked;  // the factor and addend of one pack at a time
  __shared__ alignas(16) float scratch[32], scratch_of_squares[32];
  wait_for_previous();

  const int step = NV == 1 ? 0 : kRows == 1 ? blockDim.x : TPR;
  const int first = kRows == 1 ? threadIdx.x : threadIdx.x % TPR;
  const uint32_t row = kRows == 1 ? blockIdx.x : blockIdx.x * kRows + threadIdx.x / TPR;
  // Packs of the row from this thread's first on; none behind the last row, in the last block.
  const int left = kRows == 1 || row < a.rows ? static_cast<int>(a.packs) - first : 0;
  Pack<T, N> x[NV], h[NV], gate[NV], gate_table[kPacked ? 1 : NV];
  Modulation<T, N> modulation[kLate ? 1 : NV];
  {
    const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride + first * N;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < left) load<kCached>(x[v], x_row, v * step);
  }
  const uint32_t group = a.rows_per_modulation.quotient(row);
  const T* h_row = static_cast<const T*>(a.h) + row * a.h_stride + first * N;
  const T* gate_row = static_cast<const T*>(a.gate) + group * a.gate_stride;
  const T* scale_row = static_cast<const T*>(a.scale) + group * a.scale_stride;
  const T* shift_row = static_cast<const T*>(a.shift) + group * a.shift_stride;
  // Computed while the loads of x are in flight.
  float factor[kOne ? 1 : NV][N], addend[kOne ? 1 : NV][N], gate_factor[kPacked ? 1 : NV][N];
  const auto fetch_gate_table = [&](int v) {
    if (v < NV && v * step < left && a.gate_table != nullptr)
      load<kCached>(gate_table[kPacked ? 0 : v], static_cast<const T*>(a.gate_table), first + v * step);
  };
  const auto fetch_tables_of = [&](int v) {
    if (v < NV && v * step < left) fetch_tables(modulation[v], first + v * step, a);
  };
  if constexpr (N == 1) {
    const auto each = [&](auto f) {
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (v * step < left) f(v);
    };
    if constexpr (GATED) {
      each([&](int v) { load<kCached>(h[v], h_row, v * step); });
      gate_elements(gate_factor, gate_row, first, step, a, each);
    }
    combine_elements(factor, addend, scale_row, shift_row, first, step, a, each);
  } else {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (GATED && v * step < left) load<kCached>(h[v], h_row, v * step);
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (GATED && v * step < left) {
        if (a.gate != nullptr) load<kCached>(gate[v], gate_row, first + v * step);
        if constexpr (!kPacked) fetch_gate_table(v);
      }
    }
    if constexpr (GATED && kPacked) fetch_gate_table(0);
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * step < left) {
        if constexpr (kPacked) {
          fetch_rows(modulation[v], scale_row, shift_row, first + v * step, a);
        } else if constexpr (kLate) {
          prefetch<T, N>(scale_row, shift_row, first + v * step, a);
        } else {
          fetch(modulation[v], scale_row, shift_row, first + v * step, a);
        }
      }
    }
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * step < left) {
        if constexpr (GATED && !kPacked) combine(gate_factor[v], gate[v], gate_table[v], a);
        if constexpr (!kOne) combine(factor[v], addend[v], modulation[v], first + v * step, a);
      }
    }
  }

  if constexpr (GATED) {
    T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride + first * N;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * step < left) {
        if constexpr (kPacked) {
          combine(gate_factor[0], gate[v], gate_table[0], a);
          fetch_gate_table(v + 1);
        }
        add_gated(x[v], h[v], gate_factor[kPacked ? 0 : v]);
        store(sum_row, v * step, x[v]);
        keep_packed(x[v]);
      }
    }
  }

  if constexpr (kPacked) fetch_tables_of(0);
  float mean = 0.0f;
  if (a.layer != 0) {
    float total = 0.0f;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < left) total = add_elements(x[v], total);
    mean = sum_of_row<TPR>(total, scratch) * a.inverse_width;
  }
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (v * step < left) squares = add_squares(x[v], mean, squares);
  const float inverse = rsqrtf(sum_of_row<TPR>(squares, scratch_of_squares) * a.inverse_width + a.eps);
#pragma unroll
  for (int v = 0; v < NV; ++v) keep_packed(x[v]);

  T* out_row = static_cast<T*>(a.out) + row * a.out_stride + first * N;
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (v * step < left) {
      if constexpr (kLate) {
        fetch(modulation[0], scale_row, shift_row, first + v * step, a);
        combine(factor[0], addend[0], modulation[0], first + v * step, a);
      }
      if constexpr (kPacked) {
        combine(factor[0], addend[0], modulation[v], first + v * step, a);
        fetch_tables_of(v + 1);
      }
      modulate(x[v], factor[kOne ? 0 : v], addend[kOne ? 0 : v], mean, inverse);
      store(out_row, v * step, x[v]);
    }
  }
}

// Wide rows, one a block of any whole number of warps: resident in shared memory where the launch has memory for a row,
// else read again, from L2 if still there. A thread reads back only what it read, or wrote, itself.
//
// Blackwell's code spills in the 32 registers that two blocks of 1,024 threads an SM leave it.
constexpr int kWideBlocks = kUsed<kOldest, 99> ? kSmThreads / 1024 : 1;

template <typename T, int N, bool GATED>
__global__ void __launch_bounds__(1024, kWideBlocks) adaln_wide_rows(const Arguments a) {
  constexpr int kGroup = !GATED ? 2 : N == 1 ? 4 : 1;  // packs of x in flight a thread
  __shared__ alignas(16) float scratch[32], scratch_of_squares[32];
  extern __shared__ uint4 shared_row[];
  wait_for_previous();
  const uint32_t row = blockIdx.x;
  const int64_t packs = a.width / N, step = blockDim.x;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* h_row = static_cast<const T*>(a.h) + row * a.h_stride;
  const T* gate_row = modulation_row<T>(a.gate, a.gate_stride, row, a);
  T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
  Pack<T, N>* shared = reinterpret_cast<Pack<T, N>*>(shared_row);

  float total = 0.0f;  // of elements for LayerNorm, of squares for RMSNorm
  for (int64_t start = threadIdx.x; start < packs; start += kGroup * step) {
    Pack<T, N> x[kGroup], h[kGroup];
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = start + v * step;
      if (i < packs) {
        load<kCached>(x[v], x_row, i);
        if constexpr (GATED) {
          load<kCached>(h[v], h_row, i);
        }
      }
    }
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = start + v * step;
      if (i < packs) {
        if constexpr (GATED) {
          float factor[N];
#pragma unroll
          for (int j = 0; j < N; ++j) factor[j] = a.gate != nullptr ? 0.0f : 1.0f;
          if (a.gate != nullptr) add_pack<T>(factor, gate_row, i);
          add_pack<T>(factor, a.gate_table, i);
          add_gated(x[v], h[v], factor);
          store(sum_row, i, x[v]);
        }
        if (a.row_in_shared != 0) shared[i] = x[v];
        total = a.layer != 0 ? add_elements(x[v], total) : add_squares(x[v], 0.0f, total);
      }
    }
  }
  const auto reload = [&](Pack<T, N>& x, int64_t i) {
    if (a.row_in_shared != 0) {
      x = shared[i];
    } else {
      load<kCached>(x, GATED ? sum_row : x_row, i);
    }
  };
  float squares = block_sum(total, scratch), mean = 0.0f;
  if (a.layer != 0) {
    mean = squares * a.inverse_width;
    total = 0.0f;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < packs; i += step) {
      Pack<T, N> x;
      reload(x, i);
      total = add_squares(x, mean, total);
    }
    squares = block_sum(total, scratch_of_squares);
  }
  const float inverse = rsqrtf(squares * a.inverse_width + a.eps);

  const T* scale_row = modulation_row<T>(a.scale, a.scale_stride, row, a);
  const T* shift_row = modulation_row<T>(a.shift, a.shift_stride, row, a);
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
#pragma unroll 1
  for (int64_t i = threadIdx.x; i < packs; i += step) {
    Pack<T, N> x;
    reload(x, i);
    modulate_from(x, scale_row, shift_row, mean, inverse, i, a);
    store(out_row, i, x);
  }
}

}  // namespace adaln
