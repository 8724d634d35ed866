// RMSNorm of rows, alone or after a residual add: out = norm(x) * (weight + weight_offset).
//
// The floor is memory: x is read once and out written once. So a row stays in registers, packed, from its load to its
// store; each thread holds NV packs of N elements, TPR threads of a block share a row, or with CLUSTER the blocks of a
// cluster do.
#pragma once
#include "arguments.h"
#include "pack.cuh"
#include "reduce.cuh"

// The threads of a block: small rows share one.
template <int TPR>
constexpr int kBlockThreads = TPR < 128 ? 128 : TPR;

template <typename T, int N>
__device__ __forceinline__ float add_squares(const Pack<T, N>& pack, float total) {
  float f[N];
  unpack(pack, f);
#pragma unroll
  for (int j = 0; j < N; ++j) total = fmaf(f[j], f[j], total);
  return total;
}

// sum = residual + x, rounded to T: the norm sees what the next layer will.
template <typename T, int N>
__device__ __forceinline__ void add_residual(Pack<T, N>& x, const Pack<T, N>& residual) {
  float f[N], r[N];
  unpack(x, f);
  unpack(residual, r);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] += r[j];
  repack(x, f);
}

// x * scale * (weight + weight_offset), scale being 1 / rms.
template <typename T, int N>
__device__ __forceinline__ void normalize(Pack<T, N>& x, const Pack<T, N>& weight, float scale, const RowArguments& a) {
  float f[N], w[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] *= scale;
  if (sizeof(T) == 2 && a.round_first) {
    repack(x, f);
    unpack(x, f);
  }
  if (a.weight != nullptr) {
    unpack(weight, w);
#pragma unroll
    for (int j = 0; j < N; ++j) f[j] *= w[j] + a.weight_offset;
  }
  repack(x, f);
}

// Whether the code being compiled uses a layout of these architectures. Where it does not, the kernel is a trap: its
// symbol must exist, its machine code would only cost compile time.
#ifdef __CUDA_ARCH__
template <int FIRST, int LAST>
constexpr bool kUsed = __CUDA_ARCH__ >= FIRST * 10 && __CUDA_ARCH__ <= LAST * 10 + 9;
#else
template <int FIRST, int LAST>
constexpr bool kUsed = true;
#endif

template <typename T, int N, int TPR, int NV, bool ADD, bool CLUSTER, Access LOAD, Access STORE, bool EARLY,
          int FIRST = 0, int LAST = 999>
__global__ void __launch_bounds__(kBlockThreads<TPR>) rms_norm_rows(const RowArguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  constexpr int kRows = kBlockThreads<TPR> / TPR;  // rows a block
  constexpr int kGroup = NV > 8 ? 4 : NV;          // packs of a second tensor in flight: x has the registers
  __shared__ alignas(16) float scratch[CLUSTER ? 8 * 32 : 32];
  if constexpr (CLUSTER) cluster_arrive();

  const int rank = CLUSTER ? static_cast<int>(cluster_rank()) : 0;
  const int first = CLUSTER ? rank * TPR + threadIdx.x : threadIdx.x % TPR;
  const int step = CLUSTER ? static_cast<int>(cluster_size()) * TPR : TPR;
  const int64_t row = CLUSTER ? static_cast<int64_t>(blockIdx.x / cluster_size())
                              : static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / TPR;
  const int packs = row < a.rows ? static_cast<int>(a.width / N) : 0;  // none: a row behind the last, in a last block
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* weight_row = static_cast<const T*>(a.weight);

  Pack<T, N> x[NV], weight[EARLY ? NV : kGroup];
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (first + v * step < packs) load<LOAD>(x[v], x_row, first + v * step);
  if constexpr (EARLY) {
    if (a.weight != nullptr) {
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (first + v * step < packs) load<kCached>(weight[v], weight_row, first + v * step);
    }
  }

  if constexpr (ADD) {
    const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride;
    T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
#pragma unroll
    for (int g = 0; g < NV; g += kGroup) {
      Pack<T, N> residual[kGroup];
#pragma unroll
      for (int v = g; v < g + kGroup; ++v)
        if (first + v * step < packs) load<LOAD>(residual[v - g], residual_row, first + v * step);
#pragma unroll
      for (int v = g; v < g + kGroup; ++v) {
        if (first + v * step < packs) {
          add_residual(x[v], residual[v - g]);
          store<STORE>(sum_row, first + v * step, x[v], a.stream);
          keep_packed(x[v]);
        }
      }
    }
  }

  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (first + v * step < packs) squares = add_squares(x[v], squares);
  if constexpr (CLUSTER) {
    squares = cluster_sum<TPR>(squares, scratch);
  } else {
    squares = row_sum<TPR>(squares, scratch);
  }
  const float scale = rsqrtf(squares * a.inverse_width + a.eps);
#pragma unroll
  for (int v = 0; v < NV; ++v) keep_packed(x[v]);

  T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
#pragma unroll
  for (int g = 0; g < NV; g += kGroup) {
    if constexpr (!EARLY) {
      if (a.weight != nullptr) {
#pragma unroll
        for (int v = g; v < g + kGroup; ++v)
          if (first + v * step < packs) load<kCached>(weight[v - g], weight_row, first + v * step);
      }
    }
#pragma unroll
    for (int v = g; v < g + kGroup; ++v) {
      if (first + v * step < packs) {
        normalize(x[v], weight[EARLY ? v : v - g], scale, a);
        store<STORE>(out_row, first + v * step, x[v], a.stream);
      }
    }
  }
}

// Rows too wide for the registers: they are read a second time, from the L2 as far as they are still there.
template <typename T, int N, bool ADD>
__global__ void __launch_bounds__(512) rms_norm_wide_rows(const RowArguments a) {
  constexpr int kThreads = 512, kGroup = 4;  // packs in flight a thread
  __shared__ alignas(16) float scratch[32];
  const int64_t row = blockIdx.x, packs = a.width / N;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride;
  T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
  Pack<T, N> x[kGroup], other[kGroup];

  float squares = 0.0f;
  for (int64_t first = threadIdx.x; first < packs; first += kGroup * kThreads) {
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = first + v * kThreads;
      if (i < packs) {
        load<kCached>(x[v], x_row, i);
        if constexpr (ADD) load<kCached>(other[v], residual_row, i);
      }
    }
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = first + v * kThreads;
      if (i < packs) {
        if constexpr (ADD) {
          add_residual(x[v], other[v]);
          store<kCached>(sum_row, i, x[v]);  // read back below by this same thread
        }
        squares = add_squares(x[v], squares);
      }
    }
  }
  const float scale = rsqrtf(row_sum<kThreads>(squares, scratch) * a.inverse_width + a.eps);

  for (int64_t first = threadIdx.x; first < packs; first += kGroup * kThreads) {
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = first + v * kThreads;
      if (i < packs) {
        load<kCached>(x[v], ADD ? sum_row : x_row, i);
        if (a.weight != nullptr) load<kCached>(other[v], static_cast<const T*>(a.weight), i);
      }
    }
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = first + v * kThreads;
      if (i < packs) {
        normalize(x[v], other[v], scale, a);
        store<kStream>(out_row, i, x[v]);
      }
    }
  }
}
