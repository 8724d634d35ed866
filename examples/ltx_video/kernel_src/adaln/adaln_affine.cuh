// The same for rows with a scale and a shift alone, and nothing gated: layer_norm, and adaln without tables, weight and bias; with
// tables (TABLES) for wide rows.
//
// Scale and shift are loaded with x and stay packed. In fp32, or with their tables, they would take so many registers that an SM
// would hold half as many rows at a time: tables are loaded where they are used.
//
// The warps of a row exchange what they know of it once. A warp has the sum of its elements and their squared deviations from its
// own mean; those from the mean of the row are, over all warps, the sum of theirs and of elements * (own mean - mean of the row)^2
// (T. F. Chan, G. H. Golub, R. J. LeVeque, The American Statistician 37, 1983). As in adaln_rows, which exchanges the mean and
// then the deviations from it, nothing cancels.
#pragma once
#include "dependent.cuh"
#include "modulate.cuh"
#include "reduce.cuh"
#include "tuning.h"

namespace adaln {
using namespace common;

// Threads that shall be resident on an SM, which bounds the registers to 40, 56 or 64 a thread.
template <int NV>
constexpr int kAffineThreads = NV <= 2 ? 1536 : NV == 3 ? 1152 : 1024;
template <int TPR, int NV>
constexpr int kAffineBlocks = (kAffineThreads<NV> < kSmThreads ? kAffineThreads<NV> : kSmThreads) / kBlockThreads<TPR>;

// The sum over LANES neighbouring threads of a warp, a power of two; each of them gets it.
template <int LANES>
__device__ __forceinline__ float lane_sum(float v) {
#pragma unroll
  for (int d = LANES / 2; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// The mean of a row, and 1 / sqrt(variance + eps), of what LANES neighbouring threads know of a warp each: sum, own mean, squared
// deviations from it and elements, all 0 where there is no warp.
template <int LANES>
__device__ __forceinline__ float of_warps(const float4& warp, float& mean, const Arguments& a) {
  float squares = warp.z;
  if (a.layer != 0) {
    mean = lane_sum<LANES>(warp.x) * a.inverse_width;
    squares = fmaf((warp.y - mean) * (warp.y - mean), warp.w, squares);
  }
  return rsqrtf(lane_sum<LANES>(squares) * a.inverse_width + a.eps);
}

// Rows of fewer than 128 threads share a block. Else a block a row, of as many warps as it needs, up to TPR threads. Each thread
// has up to NV packs.
template <typename T, bool TABLES, int TPR, int NV>
__global__ void __launch_bounds__(kBlockThreads<TPR>, kAffineBlocks<TPR, NV>) adaln_affine(const Arguments a) {
  constexpr int N = 16 / sizeof(T), kRows = kBlockThreads<TPR> / TPR, kLanes = TPR < 32 ? TPR : 32;
  wait_for_previous();
  const int step = kRows == 1 ? blockDim.x : TPR, first = kRows == 1 ? threadIdx.x : threadIdx.x % TPR;
  const uint32_t row = kRows == 1 ? blockIdx.x : blockIdx.x * kRows + threadIdx.x / TPR;
  // Packs of the row from this thread's first on; none behind the last row, in the last block.
  const int left = kRows == 1 || row < a.rows ? static_cast<int>(a.packs) - first : 0;
  const auto each_pack = [&](auto f) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < left) f(v);
  };

  Pack<T, N> x[NV], scale[NV] = {}, shift[NV] = {};
  const T* const x_row = static_cast<const T*>(a.x) + row * a.x_stride + first * N;
  each_pack([&](int v) { load<kCached>(x[v], x_row, v * step); });
  // Wide rows are few on an SM: while they are added up and stored, the row that the SM takes next comes into L2. H200, us:
  // layer_norm 3000 x 12288 40.3 (44.2 without), 4340 x 9216 41.4 (44.2), 4882 x 8192 41.1 (42.2), but 8192 x 4096 34.7 (34.4).
  // Where a thread has two packs it costs time: 1000 x 8192 11.6 (11.2).
  if constexpr (TPR >= 256 && NV > 2) {
    const uint32_t next = row + a.sms * (kAffineThreads<NV> / blockDim.x);
    if (threadIdx.x == 0 && next < a.rows) prefetch_row(static_cast<const T*>(a.x) + next * a.x_stride, a.packs * 16);
  }
  const uint32_t group = a.rows_per_modulation.quotient(row);
  const T* const scale_row = static_cast<const T*>(a.scale) + group * a.scale_stride + first * N;
  const T* const shift_row = static_cast<const T*>(a.shift) + group * a.shift_stride + first * N;
  each_pack([&](int v) {
    if (a.scale != nullptr) load<kCached>(scale[v], scale_row, v * step);
    if (a.shift != nullptr) load<kCached>(shift[v], shift_row, v * step);
  });

  float inverse_elements = a.inverse_width, elements = 0.0f;  // of the row that this warp has, where it has not all
  if constexpr (TPR > 32) {
    int packs = 0;
#pragma unroll
    for (int v = 0; v < NV; ++v) packs += __popc(__ballot_sync(0xffffffffu, v * step < left));
    elements = static_cast<float>(packs * N);
    inverse_elements = 1.0f / fmaxf(elements, 1.0f);
  }
  float sum = 0.0f, mean = 0.0f, squares = 0.0f, inverse;
  if (a.layer != 0) {
    each_pack([&](int v) { sum = add_elements(x[v], sum); });
    sum = lane_sum<kLanes>(sum);
    mean = sum * inverse_elements;
  }
  each_pack([&](int v) { squares = add_squares(x[v], mean, squares); });
  squares = lane_sum<kLanes>(squares);
  if constexpr (TPR > 32) {
    constexpr int kWarps = TPR <= 64 ? 2 : TPR <= 256 ? 8 : 16;  // at most, as a power of two
    __shared__ float4 warps[kBlockThreads<TPR> / 32];
    const int warp = threadIdx.x / 32, place = threadIdx.x % kWarps, of_row = kRows == 1 ? blockDim.x / 32 : TPR / 32;
    if (threadIdx.x % 32 == 0) warps[warp] = make_float4(sum, mean, squares, elements);
    __syncthreads();
    float4 part = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (place < of_row) part = warps[warp / of_row * of_row + place];
    inverse = of_warps<kWarps>(part, mean, a);
  } else {
    inverse = rsqrtf(squares * a.inverse_width + a.eps);
  }
#pragma unroll
  for (int v = 0; v < NV; ++v) keep_packed(x[v]);

  T* const out_row = static_cast<T*>(a.out) + row * a.out_stride + first * N;
  each_pack([&](int v) {
    float factor[N], addend[N];
    unpack(scale[v], factor);
    unpack(shift[v], addend);
    if constexpr (TABLES) {
      Modulation<T, N> tables = {};
      fetch_tables(tables, first + v * step, a);
      add_pack(factor, tables.scale_table);
      add_pack(addend, tables.shift_table);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) factor[j] += a.one;
    modulate(x[v], factor, addend, mean, inverse);
    store(out_row, v * step, x[v]);
  });
}

}  // namespace adaln
