// The same for rows that are no whole number of 16 bytes. Wide ones have accesses of 16 bytes even so.
//
// Such a row begins anywhere between two multiples of 16 bytes, at the same place in each tensor. What it has before the first
// multiple and behind the last, fewer elements than two packs have, some threads take one by one, beside their packs of what
// lies between. The weight begins elsewhere than the row: a pack of it is put together from two.
#pragma once
#include "rms_norm.cuh"
#include "unaligned.cuh"

namespace rmsnorm {

// Narrow rows, of which several share a block: accesses of one element, so that the weight is fetched as the row is. An element
// takes some 16 instructions, and at the memory's rate an SM has 38 for 32 elements of 16 bits.
template <typename T, int TPR, int NV, bool ADD>
__global__ void __launch_bounds__(kBlockThreads<TPR>) rms_norm_elements(const RowArguments a) {
  wait_for_previous();
  __shared__ alignas(16) float scratch[32];
  const int first = threadIdx.x % TPR;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kBlockThreads<TPR> / TPR) + threadIdx.x / TPR;
  const int left = row < a.rows ? static_cast<int>(a.width) - first : 0;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride + first;
  const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride + first;
  const T* weight_row = a.weight != nullptr ? static_cast<const T*>(a.weight) + first : x_row;  // x: read, not used
  // Whether no thread of the warp has an element from this on: asked for every second one.
  const auto none = [width = static_cast<int>(a.width)](int v) { return v % 2 == 0 && v * TPR >= width; };

  Pack<T, 1> x[NV] = {}, residual[NV] = {}, weight[NV];
#pragma unroll
  for (int v = 0; v < NV && !none(v); ++v) {
    if (v * TPR < left) {
      load<kCached>(x[v], x_row, v * TPR);
      if constexpr (ADD) load<kCached>(residual[v], residual_row, v * TPR);
      load<kCached>(weight[v], weight_row, v * TPR);
    }
  }
  float f[NV], squares[2] = {0.0f, 0.0f};
#pragma unroll
  for (int v = 0; v < NV && !none(v); ++v) {
    if constexpr (ADD) {
      add_residual(x[v], residual[v]);
      if (v * TPR < left) store(static_cast<T*>(a.sum) + row * a.sum_stride + first, v * TPR, x[v]);
    }
    f[v] = to_float<T>(x[v].word[0]);
    squares[v % 2] = fmaf(f[v], f[v], squares[v % 2]);
  }
  float scale = rsqrtf(row_sum<TPR>(squares[0] + squares[1], scratch) * a.inverse_width + a.eps), offset = a.weight_offset;
  if (sizeof(T) == 2 && a.round_first != 0) {
#pragma unroll
    for (int v = 0; v < NV && !none(v); ++v) f[v] = to_float<T>(to_bits<T>(f[v] * scale));
    scale = 1.0f;
  }
  if (a.weight == nullptr) {
#pragma unroll
    for (int v = 0; v < NV && !none(v); ++v) weight[v].word[0] = to_bits<T>(1.0f);
    offset = 0.0f;
  }
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride + first;
#pragma unroll
  for (int v = 0; v < NV && !none(v); ++v) {
    x[v].word[0] = to_bits<T>(f[v] * scale * (to_float<T>(weight[v].word[0]) + offset));
    if (v * TPR < left) store(out_row, v * TPR, x[v]);
  }
}

// A block a row, of as many warps as it needs, up to THREADS.
template <typename T, int THREADS, int NV, bool ADD>
__global__ void __launch_bounds__(THREADS) rms_norm_unaligned(const RowArguments a) {
  wait_for_previous();
  constexpr int N = 16 / sizeof(T);
  __shared__ alignas(16) float scratch[32];

  const int step = blockDim.x, width = static_cast<int>(a.width);
  const int64_t row = blockIdx.x;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const Share<T> own(x_row, width, threadIdx.x);

  Pack<T, N> x[NV], weight[NV];
  Pack<T, 1> one, one_weight;
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (v * step < own.left) load<kCached>(x[v], x_row + own.first, v * step);
  if (own.beside) load<kCached>(one, x_row, own.element);
  if (a.weight != nullptr) {
    const T* const all = static_cast<const T*>(a.weight);
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < own.left) load_anywhere(weight[v], all, own.first + v * step * N, width);
    if (own.beside) load<kCached>(one_weight, all, own.element);
  }

  if constexpr (ADD) {
    const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride;
    T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
    Pack<T, N> residual[NV];
    Pack<T, 1> one_residual;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < own.left) load<kCached>(residual[v], residual_row + own.first, v * step);
    if (own.beside) load<kCached>(one_residual, residual_row, own.element);
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * step < own.left) {
        add_residual(x[v], residual[v]);
        store(sum_row + own.first, v * step, x[v]);
        keep_packed(x[v]);
      }
    }
    if (own.beside) {
      add_residual(one, one_residual);
      store(sum_row, own.element, one);
    }
  }

  float squares[2] = {0.0f, 0.0f};
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (v * step < own.left) add_squares(x[v], squares);
  if (own.beside) add_squares(one, squares);
  const float scale = rsqrtf(block_sum(squares[0] + squares[1], scratch) * a.inverse_width + a.eps);
#pragma unroll
  for (int v = 0; v < NV; ++v) keep_packed(x[v]);

  T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (v * step < own.left) {
      normalize(x[v], weight[v], scale, a);
      store(out_row + own.first, v * step, x[v]);
    }
  }
  if (own.beside) {
    normalize(one, one_weight, scale, a);
    store(out_row, own.element, one);
  }
}

}  // namespace rmsnorm
