// The same for rows without weight and bias, by accesses of N elements: of 16 bytes, of 4 where a row is no whole number of 16, and
// of one element where it is none of 4 either. Of accesses narrower than 16 bytes those of a warp lie side by side, and a thread
// needs no case for the ends of a row. Rows have a scale and a shift, with TABLES their tables, and GATED a gated residual.
//
// On an H200 what limits such rows is the number of instructions: on a LayerNorm with tables adaln_groups executes 29 (two rows a
// block) to 34 an element (Nsight Compute), of which 13 to 17 are arithmetic. The others are addresses, conditions and branches. So
// here every thread executes the same, whatever part of the row it has. The packs of a thread are as many apart as a warp has lanes
// for the row, so that one address and constant offsets reach them. The row ends within some of the last packs: that decides about
// their loads and stores, and leaves their elements out of the squares.
//
// As in adaln_affine the warps of a row exchange what they know of it once; as in adaln_groups a block may have several rows with
// their modulation in common.
#pragma once
#include "adaln_affine.cuh"

namespace adaln {

// What a thread finds of a row that is not there: of each of its packs the same.
static __device__ uint4 no_row[128];

// Code for other architectures than 9.0 takes a few registers more, which a thread with 64 bytes of x does not have. There one of
// 16 packs loads the tables of its packs where they are used, and of others, and of blocks of 128 threads, one fewer stands on an SM;
// on sm_75 of all gated ones.
template <int NV>
constexpr bool kTablesLate = NV == 16 && !kUsed<90, 90>;
template <int THREADS, int NV, int BYTES, int BLOCKS>
constexpr int kUniformBlocks = kAffineBlocks<THREADS, (BYTES == 64 && (NV < 16 || THREADS == 128) && BLOCKS > 1 && !kUsed<90, 90> ? BLOCKS - 1 : BLOCKS)>;

// TPR threads share a row: fewer than 128 of several rows a block; else at most, in as many warps as the row needs. Each has up
// to NV packs of N elements of ROWS rows that have their modulation in common. WHEN the modulation is loaded: a Fetch. BLOCKS
// blocks an SM bound the registers.
template <typename T, int N, bool TABLES, bool GATED, int TPR, int NV, int ROWS, int WHEN, int BLOCKS>
__global__ void __launch_bounds__(kBlockThreads<TPR>,
                                  kUniformBlocks<kBlockThreads<TPR>, NV, NV * ROWS * sizeof(Pack<T, N>),
                                                 (GATED && BLOCKS > 1 && !kUsed<80> ? BLOCKS - 1 : BLOCKS)>)
    adaln_uniform(const Arguments a) {
  constexpr int kRows = kBlockThreads<TPR> / TPR, kLanes = TPR < 32 ? TPR : 32;
  constexpr int kFetch = GATED && !TABLES && NV == 16 ? kAhead : WHEN == kEarly && kTablesLate<NV> ? kHalf : WHEN;  // else it spills
  static_assert(TPR <= 32 || TPR >= 128, "a row has whole blocks or parts of a warp");
  static_assert(NV * kLanes * N * sizeof(T) <= sizeof(no_row), "a thread has more than no_row");
  wait_for_previous();
  const int warp = kRows == 1 ? threadIdx.x / 32 : 0, first = warp * (32 * NV) + threadIdx.x % kLanes;
  const int lane_row = kRows == 1 ? 0 : threadIdx.x / TPR;  // which of the rows that a block has at a time
  uint32_t modulation, begin, end;
  if constexpr (ROWS == 1) {
    begin = blockIdx.x * kRows + lane_row, end = a.rows;
    modulation = a.rows_per_modulation.quotient(begin);
  } else {
    // Blocks are numbered modulation by modulation, so that none has rows of two. The last modulation may have fewer rows.
    modulation = a.blocks_per_modulation.quotient(blockIdx.x);
    begin = modulation * a.rows_of_modulation + (blockIdx.x - modulation * a.blocks_of_modulation) * (kRows * ROWS);
    end = min((modulation + 1) * a.rows_of_modulation, a.rows);
    if (begin >= end) return;
    begin += lane_row;
  }
  // Packs of the row from this thread's first on; none behind the last row.
  const int left = kRows == 1 || begin < end ? static_cast<int>(a.packs) - first : 0;
  const auto there = [&](int v) { return v * kLanes < left; };
  // Where there are fewer rows than ROWS, a thread repeats its last one, with the same result.
  const auto row_at = [&](int r) { return ROWS == 1 ? begin : min(begin + r * kRows, begin + (end - 1 - begin) / kRows * kRows); };

  // What is not there of a row counts as 0; or, which takes fewer instructions where the tables are loaded with x, is left out of
  // the sum.
  constexpr bool kLeftOut = GATED || (TABLES && kFetch == kEarly);
  Pack<T, N> x[ROWS][NV];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const T* const x_row = static_cast<const T*>(a.x) + row_at(r) * a.x_stride + first * N;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if constexpr (!kLeftOut) x[r][v] = {};
      if (there(v)) load<kCached>(x[r][v], x_row, v * kLanes);
    }
  }
  Pack<T, N> h[ROWS][GATED ? NV : 1];
#pragma unroll
  for (int r = 0; GATED && r < ROWS; ++r) {
    const T* const h_row = static_cast<const T*>(a.h) + row_at(r) * a.h_stride + first * N;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (there(v)) load<kCached>(h[r][v], h_row, v * kLanes);
  }
  // As in adaln_groups: what the SM takes next comes into L2 while it sums up and stores. By words, H200, us (without): layer_norm
  // 2677 x 7004 25.8 (31.0), 1562 x 12002 31.7 (37.4), with tables 9365 x 2002 24.9 (27.2).
  if constexpr (TPR >= 128 && NV > 1) {
    const uint32_t next = begin + a.sms * BLOCKS * ROWS + threadIdx.x, bytes = a.packs * sizeof(T) * N;
    if (threadIdx.x < ROWS && next < a.rows) {
      prefetch_row(static_cast<const T*>(a.x) + next * a.x_stride, bytes);
      if constexpr (GATED) prefetch_row(static_cast<const T*>(a.h) + next * a.h_stride, bytes);
    }
  }

  // A row's own modulation comes as late as the row does, by narrow accesses in several requests. H200, bf16, with tables, us
  // (without): 76957 x 273 47.3 (49.6), 50000 x 383 42.9 (45.3), 6000 x 3001 41.9 (43.0), by words 2000 x 9282 44.2 (48.1), gated
  // 1500 x 7004 43.7 (49.2), but 20000 x 1002 43.0 (40.0), gated 1500 x 9806 62.3 (59.4).
  constexpr bool kOwnAhead = GATED ? N == 2 && NV == 10 : N == 1 ? TPR >= 128 || NV > 8 : N == 2 && NV == 12 && TPR >= 128;
  if constexpr (ROWS == 1 && TABLES && sizeof(T) == 2 && kOwnAhead) {
    const uint32_t next = begin + a.sms * BLOCKS * kRows, bytes = a.packs * sizeof(T) * N;
    const bool own = a.rows_per_modulation.quotient(1) == 1 && (!GATED || a.packs <= 4096);
    if (own && threadIdx.x % TPR == 0 && next < a.rows) {
      if constexpr (TPR < 128) prefetch_row(static_cast<const T*>(a.x) + next * a.x_stride, bytes);
      prefetch_row(static_cast<const T*>(a.scale) + next * a.scale_stride, bytes);
      prefetch_row(static_cast<const T*>(a.shift) + next * a.shift_stride, bytes);
      if constexpr (GATED) prefetch_row(static_cast<const T*>(a.gate) + next * a.gate_stride, bytes);
    }
  }

  const auto row_of = [&](const void* data, int64_t at) {  // with tables every one is there
    return TABLES || data != nullptr ? static_cast<const T*>(data) + at + first * N : reinterpret_cast<const T*>(no_row);
  };
  const T* const scale_row = row_of(a.scale, modulation * a.scale_stride);
  const T* const shift_row = row_of(a.shift, modulation * a.shift_stride);
  int first_again = first;
  Modulation<T, N> m[kFetch == kAhead ? 1 : NV];
  if constexpr (kFetch == kAhead) m[0] = {};  // else the compiler spills
  const auto fetch_rows_of = [&](int v) {
    auto& to = m[kFetch == kAhead ? 0 : v];
    if (there(v)) load<kCached>(to.scale, scale_row, v * kLanes), load<kCached>(to.shift, shift_row, v * kLanes);
  };
  const auto fetch_tables_of = [&](int v) {
    if (!TABLES || !there(v)) return;
    auto& to = m[kFetch == kAhead ? 0 : v];
    load<kCached>(to.scale_table, static_cast<const T*>(a.scale_table) + first_again * N, v * kLanes);
    load<kCached>(to.shift_table, static_cast<const T*>(a.shift_table) + first_again * N, v * kLanes);
  };
#pragma unroll
  for (int v = 0; kFetch != kAhead && v < NV; ++v) fetch_rows_of(v);
#pragma unroll
  for (int v = 0; kFetch == kEarly && v < NV; ++v) fetch_tables_of(v);

  if constexpr (GATED) {
    const T* const gate_row = static_cast<const T*>(a.gate) + modulation * a.gate_stride + first * N;
    Pack<T, N> gate[NV], gate_table[TABLES ? NV : 1];
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (!there(v)) continue;
      load<kCached>(gate[v], gate_row, v * kLanes);
      if constexpr (TABLES) load<kCached>(gate_table[v], static_cast<const T*>(a.gate_table) + first * N, v * kLanes);
    }
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      float factor[N];
      unpack(gate[v], factor);
      if constexpr (TABLES) add_pack(factor, gate_table[v]);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        T* const sum_row = static_cast<T*>(a.sum) + row_at(r) * a.sum_stride + first * N;
        add_gated(x[r][v], h[r][v], factor);
        if (there(v)) store(sum_row, v * kLanes, x[r][v]);
        keep_packed(x[r][v]);
      }
    }
  }

  // Of the row that this warp has, where it has not all.
  const float elements = static_cast<float>(min(32 * NV, static_cast<int>(a.packs) - warp * (32 * NV)) * N);
  const float inverse_elements = kRows == 1 ? __fdividef(1.0f, elements) : a.inverse_width;
  float sum[ROWS] = {}, mean[ROWS] = {}, squares[ROWS] = {}, inverse[ROWS];
  if (a.layer != 0) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int v = 0; v < NV; ++v) {
        const float more = add_elements(x[r][v], sum[r]);
        sum[r] = !kLeftOut || there(v) ? more : sum[r];
      }
      sum[r] = lane_sum<kLanes>(sum[r]);
      mean[r] = sum[r] * inverse_elements;
#pragma unroll
      for (int v = 0; v < NV; ++v) keep_packed(x[r][v]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      const float more = add_squares(x[r][v], mean[r], squares[r]);
      squares[r] = there(v) ? more : squares[r];
    }
    squares[r] = lane_sum<kLanes>(squares[r]);
  }
  if constexpr (kFetch == kAhead) fetch_rows_of(0), fetch_tables_of(0);
  if constexpr (kRows == 1) {
    constexpr int kWarps = TPR <= 128 ? 4 : TPR <= 256 ? 8 : 16;  // at most, as a power of two
    __shared__ float4 warps[ROWS][TPR / 32];
    const int place = threadIdx.x % kWarps;
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int r = 0; r < ROWS; ++r) warps[r][warp] = make_float4(sum[r], mean[r], squares[r], elements);
    asm volatile("" : "+r"(first_again));  // addresses that come from it take no registers before
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      float4 part = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (place < blockDim.x / 32) part = warps[r][place];
      inverse[r] = of_warps<kWarps>(part, mean[r], a);
    }
  } else {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) inverse[r] = rsqrtf(squares[r] * a.inverse_width + a.eps);
  }

#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(x[r][v]);
  // Where registers hold the modulation of wide rows, they have no room for the addresses of the outputs besides.
  constexpr bool kAddresses = kFetch == kAhead || kRows > 1;
  const auto out_at = [&](int r) { return static_cast<T*>(a.out) + row_at(r) * a.out_stride + first_again * N; };
  T* out_row[ROWS];
#pragma unroll
  for (int r = 0; kAddresses && r < ROWS; ++r) out_row[r] = out_at(r);
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if constexpr (kFetch == kHalf) fetch_tables_of(v);
    const Modulation<T, N>& of_pack = m[kFetch == kAhead ? 0 : v];
    float factor[N], addend[N];
    unpack(of_pack.scale, factor);
    unpack(of_pack.shift, addend);
    if constexpr (TABLES) {
      add_pack(factor, of_pack.scale_table);
      add_pack(addend, of_pack.shift_table);
    }
    if (kFetch == kAhead && v + 1 < NV) fetch_rows_of(v + 1), fetch_tables_of(v + 1);
#pragma unroll
    for (int j = 0; j < N; ++j) factor[j] += a.one;  // last: a tensor and its table may cancel each other
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      modulate_scaled(x[r][v], factor, addend, mean[r], inverse[r]);
      if (there(v)) store(kAddresses ? out_row[r] : out_at(r), v * kLanes, x[r][v]);
    }
  }
}

}  // namespace adaln
