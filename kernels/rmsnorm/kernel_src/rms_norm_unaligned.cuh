// The same for rows that are no whole number of 16 bytes: by accesses of 4 bytes, of one element, or, where rows are odd and wide, of
// 16 bytes even so.
//
// Such a row begins anywhere between two multiples of 16 bytes, at the same place in each tensor. What it has before the first
// multiple and behind the last, fewer elements than two packs have, some threads take one by one, beside their packs of what
// lies between. The weight begins elsewhere than the row: a pack of it is put together from two.
#pragma once
#include "rms_norm.cuh"
#include "unaligned.cuh"

namespace rmsnorm {

// Threads of a block. At the memory's rate no more than some 800 blocks a microsecond start (H200): of rows of 4-byte accesses that
// a warp or less shares, 256 threads have as much to do as 128 of others.
template <int N, int TPR>
constexpr int kElementThreads = N > 1 && TPR <= 32 ? kWordThreads : kBlockThreads<TPR>;

// Rows by accesses of N elements: of 4 bytes, or narrow ones of one element, so that the weight is fetched as the row is. Fewer than
// 128 threads have several rows a block. An element takes some 16 instructions, and at the memory's rate an SM has 38 for 32 elements
// of 16 bits.
template <typename T, int N, int TPR, int NV, bool ADD>
__global__ void __launch_bounds__(kElementThreads<N, TPR>, NV <= 16 ? 1024 / kElementThreads<N, TPR> : 1)
    rms_norm_elements(const RowArguments a) {
  wait_for_previous();
  __shared__ alignas(16) float scratch[32];
  const int first = threadIdx.x % TPR;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kElementThreads<N, TPR> / TPR) + threadIdx.x / TPR;
  const int left = row < a.rows ? static_cast<int>(a.packs) - first : 0;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride + first * N;
  const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride + first * N;
  const T* weight_row = a.weight != nullptr ? static_cast<const T*>(a.weight) + first * N : x_row;  // x: read, not used
  // Whether no thread of the warp has an access from this on: asked for every second one.
  const auto none = [packs = static_cast<int>(a.packs)](int v) { return v % 2 == 0 && v * TPR >= packs; };

  Pack<T, N> x[NV] = {}, residual[NV] = {}, weight[NV];
#pragma unroll
  for (int v = 0; v < NV && !none(v); ++v) {
    if (v * TPR < left) {
      load<kCached>(x[v], x_row, v * TPR);
      if constexpr (ADD) load<kCached>(residual[v], residual_row, v * TPR);
      load<kCached>(weight[v], weight_row, v * TPR);
    }
  }
  float f[NV][N], squares[2] = {0.0f, 0.0f};
#pragma unroll
  for (int v = 0; v < NV && !none(v); ++v) {
    if constexpr (ADD) {
      add_residual(x[v], residual[v]);
      if (v * TPR < left) store(static_cast<T*>(a.sum) + row * a.sum_stride + first * N, v * TPR, x[v]);
    }
    unpack(x[v], f[v]);
#pragma unroll
    for (int j = 0; j < N; ++j) squares[(v + j) % 2] = fmaf(f[v][j], f[v][j], squares[(v + j) % 2]);
    if constexpr (N > 1) keep_packed(x[v]);
  }
  float scale = rsqrtf(row_sum<TPR>(squares[0] + squares[1], scratch) * a.inverse_width + a.eps), offset = a.weight_offset;
  if (sizeof(T) == 2 && a.round_first != 0) {
#pragma unroll
    for (int v = 0; v < NV && !none(v); ++v) {
      if constexpr (N > 1) unpack(x[v], f[v]);
#pragma unroll
      for (int j = 0; j < N; ++j) f[v][j] *= scale;
      repack(x[v], f[v]);
      if constexpr (N == 1) unpack(x[v], f[v]);
    }
    scale = 1.0f;
  }
  if (a.weight == nullptr) {
#pragma unroll
    for (int v = 0; v < NV && !none(v); ++v) {
      float ones[N];
#pragma unroll
      for (float& one : ones) one = 1.0f;
      repack(weight[v], ones);
    }
    offset = 0.0f;
  }
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride + first * N;
#pragma unroll
  for (int v = 0; v < NV && !none(v); ++v) {
    float w[N];
    unpack(weight[v], w);
    if constexpr (N > 1) unpack(x[v], f[v]);  // packed two of them take one register
#pragma unroll
    for (int j = 0; j < N; ++j) f[v][j] = f[v][j] * scale * (w[j] + offset);
    repack(x[v], f[v]);
    if (v * TPR < left) store(out_row, v * TPR, x[v]);
  }
}

// Prefetches into L2 what a row of 16 bytes or more has between multiples of 16 bytes.
template <typename T>
__device__ __forceinline__ void prefetch_within(const T* row, int width) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const Share<T> first(row, width, 0);
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(row + first.first), "r"(first.left * 16) : "memory");
#endif
}

// A block a row, of as many warps as it needs, up to THREADS; fewer than 128 have several rows a block.
template <typename T, int THREADS, int NV, bool ADD>
__global__ void __launch_bounds__(kBlockThreads<THREADS>) rms_norm_unaligned(const RowArguments a) {
  wait_for_previous();
  constexpr int N = 16 / sizeof(T), kRows = kBlockThreads<THREADS> / THREADS;
  static_assert(THREADS >= 2 * (N - 1), "a row has as many threads as elements beside its packs");
  __shared__ alignas(16) float scratch[32];

  const int step = kRows > 1 ? THREADS : blockDim.x, width = static_cast<int>(a.width);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + (kRows > 1 ? threadIdx.x / THREADS : 0);
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const Share<T> own(x_row, kRows == 1 || row < a.rows ? width : 0, kRows > 1 ? threadIdx.x % THREADS : threadIdx.x);

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
  // What the SM takes next comes into L2 while it sums up and stores. H200, us (without): 16764 x 1193 23.6 (24.4), 6664 x 3001 23.1
  // (24.6). With residual add enough is on its way.
  if (!ADD && kRows == 1 && threadIdx.x == 0 && row + a.ahead < a.rows) prefetch_within(x_row + a.ahead * a.x_stride, width);

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
  const float own_sum = squares[0] + squares[1];
  const float sum = kRows > 1 ? row_sum<THREADS>(own_sum, scratch) : block_sum(own_sum, scratch);
  const float scale = rsqrtf(sum * a.inverse_width + a.eps);
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
