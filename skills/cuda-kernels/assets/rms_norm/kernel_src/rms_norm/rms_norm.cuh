// RMSNorm of rows, alone or after a residual add: out = norm(x) * (weight + weight_offset).
//
// The floor is memory: x is read once and out is written once. So a row stays in registers, packed, from its load to
// its store: TPR threads share it, and each holds NV packs of N elements.
#pragma once
#include "arch.h"
#include "arguments.h"
#include "dependent.cuh"
#include "pack.cuh"
#include "reduce.cuh"

namespace rmsnorm {
using namespace common;

// Two chains of sums: in the smallest launches their latency is on the way from the load to the store.
template <typename T, int N>
__device__ __forceinline__ void add_squares(const Pack<T, N>& pack, float (&total)[2]) {
  float f[N];
  unpack(pack, f);
#pragma unroll
  for (int j = 0; j < N; ++j) total[j % 2] = fmaf(f[j], f[j], total[j % 2]);
}

// x becomes residual + x, rounded to T: the norm sees what the next layer will.
template <typename T, int N>
__device__ __forceinline__ void add_residual(Pack<T, N>& x, const Pack<T, N>& residual) {
  float f[N], r[N];
  unpack(x, f);
  unpack(residual, r);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] += r[j];
  repack(x, f);
}

// x becomes x * scale * (weight + weight_offset); scale is 1 / rms.
template <typename T, int N>
__device__ __forceinline__ void normalize(Pack<T, N>& x, const Pack<T, N>& weight, float scale, const RowArguments& a) {
  float f[N], w[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] *= scale;
  if (sizeof(T) == 2 && a.round_first != 0) {
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

template <typename T, int N, int TPR, int NV, bool ADD, Access LOAD, int FIRST>
__global__ void __launch_bounds__(kBlockThreads<TPR>) rms_norm_rows(const RowArguments a) {
  if constexpr (!kUsed<FIRST>) {
    __trap();
    return;
  }
  wait_for_previous();
  constexpr int kRows = kBlockThreads<TPR> / TPR;  // rows a block
  // Packs of a second tensor in flight: x has the registers, and 1024 threads have 64 each.
  constexpr int kGroup = NV <= 4 ? NV : TPR == 1024 ? 2 : 4;
  constexpr bool kEarly = NV <= 4;  // the weight fits beside the row: fetched before the reduction, its latency hides
  __shared__ alignas(16) float scratch[32];

  // Pointers to this thread's first pack: the others lie at constant distances. What is left of it, in packs, is not
  // above zero behind the last row either.
  const int first = kRows == 1 ? threadIdx.x : threadIdx.x % TPR;
  const int64_t row = kRows == 1 ? blockIdx.x : static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / TPR;
  const int left = kRows == 1 || row < a.rows ? static_cast<int>(a.packs) - first : 0;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride + first * N;
  const T* weight_row = static_cast<const T*>(a.weight) + first * N;

  Pack<T, N> x[NV], weight[kEarly ? NV : kGroup];
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (v * TPR < left) load<LOAD>(x[v], x_row, v * TPR);
  if (kEarly && a.weight != nullptr) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * TPR < left) load<kCached>(weight[v], weight_row, v * TPR);
  }

  if constexpr (ADD) {
    const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride + first * N;
    T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride + first * N;
#pragma unroll
    for (int g = 0; g < NV; g += kGroup) {
      Pack<T, N> residual[kGroup];
#pragma unroll
      for (int v = g; v < g + kGroup; ++v)
        if (v * TPR < left) load<LOAD>(residual[v - g], residual_row, v * TPR);
#pragma unroll
      for (int v = g; v < g + kGroup; ++v) {
        if (v * TPR < left) {
          add_residual(x[v], residual[v - g]);
          store(sum_row, v * TPR, x[v]);
          keep_packed(x[v]);
        }
      }
    }
  }

  float squares[2] = {0.0f, 0.0f};
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (v * TPR < left) add_squares(x[v], squares);
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride + first * N;
  const float scale = rsqrtf(row_sum<TPR>(squares[0] + squares[1], scratch) * a.inverse_width + a.eps);
#pragma unroll
  for (int v = 0; v < NV; ++v) keep_packed(x[v]);

#pragma unroll
  for (int g = 0; g < NV; g += kGroup) {
    if (!kEarly && a.weight != nullptr) {
#pragma unroll
      for (int v = g; v < g + kGroup; ++v)
        if (v * TPR < left) load<kCached>(weight[v - g], weight_row, v * TPR);
    }
#pragma unroll
    for (int v = g; v < g + kGroup; ++v) {
      if (v * TPR < left) {
        normalize(x[v], weight[kEarly ? v : v - g], scale, a);
        store(out_row, v * TPR, x[v]);
      }
    }
  }
}

// Rows that are read a second time, from the caches as far as they are still there: one a block of up to 512 threads.
template <typename T, int N, bool ADD>
__global__ void __launch_bounds__(512) rms_norm_rows_twice(const RowArguments a) {
  wait_for_previous();
  constexpr int kGroup = 4;  // packs in flight a thread
  __shared__ alignas(16) float scratch[32];
  const int64_t row = blockIdx.x, packs = a.packs, step = blockDim.x;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride;
  T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
  Pack<T, N> x[kGroup], other[kGroup];

  float squares[2] = {0.0f, 0.0f};
  for (int64_t first = threadIdx.x; first < packs; first += kGroup * step) {
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = first + v * step;
      if (i < packs) {
        load<kCached>(x[v], x_row, i);
        if constexpr (ADD) load<kCached>(other[v], residual_row, i);
      }
    }
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = first + v * step;
      if (i < packs) {
        if constexpr (ADD) {
          add_residual(x[v], other[v]);
          store(sum_row, i, x[v]);  // read back below by this same thread
        }
        add_squares(x[v], squares);
      }
    }
  }
  const float scale = rsqrtf(block_sum(squares[0] + squares[1], scratch) * a.inverse_width + a.eps);

  for (int64_t first = threadIdx.x; first < packs; first += kGroup * step) {
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = first + v * step;
      if (i < packs) {
        load<kCached>(x[v], ADD ? sum_row : x_row, i);
        if (a.weight != nullptr) load<kCached>(other[v], static_cast<const T*>(a.weight), i);
      }
    }
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      const int64_t i = first + v * step;
      if (i < packs) {
        normalize(x[v], other[v], scale, a);
        store(out_row, i, x[v]);
      }
    }
  }
}

}  // namespace rmsnorm
