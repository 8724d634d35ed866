// A candidate for tuning: a grid that fits the card walks over the rows, with the weight in registers and, where
// PREFETCH, the next row's loads issued before the current row's stores.
#pragma once
#include "../kernel_src/rms_norm.cuh"

template <typename T, int N, int TPR, int NV, bool ADD, Access LOAD, Access STORE, bool PREFETCH>
__global__ void __launch_bounds__(kBlockThreads<TPR>) rms_norm_persistent(const RowArguments a) {
  constexpr int kRows = kBlockThreads<TPR> / TPR;
  __shared__ alignas(16) float scratch[2][32];
  const int first = threadIdx.x % TPR;
  const int packs = static_cast<int>(a.width / N);
  Pack<T, N> weight[NV], x[NV], next[PREFETCH ? NV : 1];
  auto fetch = [&](Pack<T, N>* to, int64_t row) {
    const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (row < a.rows && first + v * TPR < packs) load<LOAD>(to[v], x_row, first + v * TPR);
  };
  int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / TPR;
  if (PREFETCH) fetch(x, row);
  if (a.weight != nullptr) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * TPR < packs) load<kCached>(weight[v], static_cast<const T*>(a.weight), first + v * TPR);
  }
  const int64_t step = static_cast<int64_t>(gridDim.x) * kRows;
  int turn = 0;
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * kRows; base < a.rows; base += step, row += step) {
    if (!PREFETCH) fetch(x, row);
    const bool alive = row < a.rows;
    if constexpr (ADD) {
      const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride;
      T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
      Pack<T, N> residual[NV];
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (alive && first + v * TPR < packs) load<LOAD>(residual[v], residual_row, first + v * TPR);
#pragma unroll
      for (int v = 0; v < NV; ++v) {
        if (alive && first + v * TPR < packs) {
          add_residual(x[v], residual[v]);
          store<STORE>(sum_row, first + v * TPR, x[v]);
          keep_packed(x[v]);
        }
      }
    }
    float squares = 0.0f;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (alive && first + v * TPR < packs) squares = add_squares(x[v], squares);
    if constexpr (PREFETCH) fetch(next, row + step);
    squares = row_sum<TPR>(squares, scratch[turn]);
    turn ^= 1;
    const float scale = rsqrtf(squares * a.inverse_width + a.eps);
    T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (alive && first + v * TPR < packs) {
        keep_packed(x[v]);
        normalize(x[v], weight[v], scale, a);
        store<STORE>(out_row, first + v * TPR, x[v]);
      }
    }
    if constexpr (PREFETCH) {
#pragma unroll
      for (int v = 0; v < NV; ++v) x[v] = next[v];
    }
  }
}
