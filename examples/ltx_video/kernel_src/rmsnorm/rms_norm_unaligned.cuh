// The same for rows that are no whole number of 16 bytes: their accesses are of 16 bytes even so.
//
// A row begins anywhere between two multiples of 16 bytes, at the same place in each tensor. What it has before the first
// multiple and behind the last, fewer elements than two packs have, some threads take one by one, beside their packs of what
// lies between. The weight begins elsewhere than the row: a pack of it is put together from two.
#pragma once
#include "rms_norm.cuh"
#include "unaligned.cuh"

namespace rmsnorm {

// Rows of fewer than 128 threads share a block. Else a block a row, of as many warps as it needs, up to THREADS.
template <typename T, int THREADS, int NV, bool ADD>
__global__ void __launch_bounds__(kBlockThreads<THREADS>, THREADS < 128 ? 5 : 1) rms_norm_unaligned(const RowArguments a) {
  wait_for_previous();
  constexpr int N = 16 / sizeof(T);
  constexpr int kRows = kBlockThreads<THREADS> / THREADS;
  static_assert(THREADS >= 16, "the elements beside the packs are up to 14");
  __shared__ alignas(16) float scratch[32];

  const int thread = kRows > 1 ? threadIdx.x % THREADS : threadIdx.x, step = kRows > 1 ? THREADS : blockDim.x;
  const int64_t row = kRows > 1 ? static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / THREADS : blockIdx.x;
  const int width = row < a.rows ? static_cast<int>(a.width) : 0;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const Share<T> own(x_row, width, thread);

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
  float total = squares[0] + squares[1];
  if constexpr (kRows > 1) {
    total = row_sum<THREADS>(total, scratch);
  } else {
    total = block_sum(total, scratch);
  }
  const float scale = rsqrtf(total * a.inverse_width + a.eps);
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
