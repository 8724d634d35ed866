// The gradient of RMSNorm, a row at a time. With r = 1 / rms(x), xhat = x * r and g = dy * (weight + weight_offset):
//
//   dx = r * (g - xhat * mean(g * xhat))        dw = sum over the rows of dy * xhat
//
// The floor is memory: dy and x are read once and dx is written once, so a row stays in registers as in the forward, and
// r comes from x again rather than from the forward. dw is a sum over rows: each block keeps the one of its own rows in
// fp32 registers and writes it out at its end; weight_gradient adds the blocks' in a fixed order. No atomics: the same
// bits each time for the same number of blocks.
#pragma once
#include <type_traits>

#include "arch.h"
#include "arguments.h"
#include "cluster.cuh"
#include "pack.cuh"
#include "partial_sums.cuh"
#include "row_sums.cuh"
#include "tuning.h"

namespace rmsnorm_backward {
using namespace common;

// Rows of fewer than 128 threads share a block.
template <int TPR>
constexpr int kBlockThreads = TPR < 128 ? 128 : TPR;

template <typename T, int N>
__device__ __forceinline__ void load_weight(Pack<T, N>& weight, const Arguments& a, int64_t i) {
  if (a.weight != nullptr) {
    load<kCached>(weight, static_cast<const T*>(a.weight), i);
  } else {
    float ones[N];
#pragma unroll
    for (int j = 0; j < N; ++j) ones[j] = 1.0f;
    repack(weight, ones);
  }
}

// x: the sum of x^2; y: that of g * x.
template <typename T, int N>
__device__ __forceinline__ void add_products(const Pack<T, N>& x, const Pack<T, N>& dy, const Pack<T, N>& weight,
                                             float weight_offset, float2& total) {
  float f[N], g[N], w[N];
  unpack(x, f);
  unpack(dy, g);
  unpack(weight, w);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    total.x = fmaf(f[j], f[j], total.x);
    total.y = fmaf(g[j] * (w[j] + weight_offset), f[j], total.y);
  }
}

// x becomes dx; dw gets dy * xhat added. scale is r, mean that of g * xhat.
template <typename T, int N>
__device__ __forceinline__ void gradient(Pack<T, N>& x, const Pack<T, N>& dy, const Pack<T, N>& weight,
                                         float weight_offset, float scale, float mean, float (&dw)[N]) {
  float f[N], g[N], w[N];
  unpack(x, f);
  unpack(dy, g);
  unpack(weight, w);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float xhat = f[j] * scale;
    dw[j] = fmaf(g[j], xhat, dw[j]);
    f[j] = scale * fmaf(-xhat, mean, g[j] * (w[j] + weight_offset));
  }
  repack(x, f);
}

// keep_packed for fp32 too: without it the compiler keeps every g of the first use for the second one.
template <typename T, int N>
__device__ __forceinline__ void forget_products(Pack<T, N>& dy) {
#pragma unroll
  for (uint32_t& word : dy.word) asm volatile("" : "+r"(word));
}

template <int TPR, int BLOCKS>
constexpr int kBlocksPerSm = BLOCKS * kBlockThreads<TPR> < kSmThreads ? BLOCKS : kSmThreads / kBlockThreads<TPR>;

// Row group g goes over the rows g, g + groups, ... (kRows of them at once); TPR threads share a row, and each holds NV
// packs of N elements of x and dy, and the sums of as many columns. BLOCKS blocks are to stand on an SM. A row group is a
// block; if SHARED, the blocks of a cluster, each of which has as many of the row's columns as the others.
template <typename T, int N, int TPR, int NV, int BLOCKS, bool SHARED, int FIRST, int LAST>
__global__ void __launch_bounds__(kBlockThreads<TPR>, kBlocksPerSm<TPR, BLOCKS>)
    rms_norm_backward_rows(const Arguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  // weight_gradient's blocks may come where there is room, and wait for the sums.
  if (a.partial != nullptr) asm volatile("griddepcontrol.launch_dependents;");
#endif
  constexpr int kRows = kBlockThreads<TPR> / TPR;
  static_assert(!SHARED || kRows == 1, "a row is shared by whole blocks");
  // Whether the weight is resident in registers too; else it is loaded from L1 twice a row.
  constexpr bool kWeightResident = NV < 4;
  __shared__ alignas(16) std::conditional_t<SHARED, ClusterScratch, SumScratch> scratch;
  if constexpr (SHARED) begin_cluster(scratch);

  const int group = kRows == 1 ? 0 : threadIdx.x / TPR;
  int first = kRows == 1 ? threadIdx.x : threadIdx.x % TPR, width = static_cast<int>(a.width / N);  // in packs
  int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + group;
  if constexpr (SHARED) {
    // This block's part of the row, in whole warps.
    const int warps = 32 * cluster_size(), share = (width + warps - 1) / warps * 32, end = share * (cluster_rank() + 1);
    first += share * cluster_rank();
    width = width < end ? width : end;
    row = cluster_index();
  }
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* dy_row = static_cast<const T*>(a.dy) + row * a.dy_stride;
  T* dx_row = static_cast<T*>(a.dx) + row * a.dx_stride;

  Pack<T, N> x[NV], dy[NV], weight[kWeightResident ? NV : 1];
  float dw[NV][N] = {};
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (first + v * TPR < width && row < a.rows) {
      load<kCached>(x[v], x_row, first + v * TPR);
      load<kCached>(dy[v], dy_row, first + v * TPR);
    }
  }
  if constexpr (kWeightResident) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * TPR < width) load_weight(weight[v], a, first + v * TPR);
  }

  if constexpr (SHARED) cluster_wait();
  // By the group's first row: all its threads take part in as many reductions.
#pragma unroll 1
  for (int round = 0; row - group < a.rows; round = (round + 1) % 4) {
    const bool is_row = kRows == 1 || row < a.rows;
    float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * TPR < width && is_row) {
        if constexpr (!kWeightResident) load_weight(weight[0], a, first + v * TPR);
        add_products(x[v], dy[v], weight[kWeightResident ? v : 0], a.weight_offset, total);
      }
    }
    if constexpr (SHARED) {
      total = cluster_sums<TPR>(total, scratch, round);
    } else {
      total = row_sums<TPR>(total, scratch, round % 2);
    }
    const float scale = rsqrtf(total.x * a.inverse_width + a.eps);
    const float mean = total.y * a.inverse_width * scale;
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(x[v]), forget_products(dy[v]), keep_packed(weight[kWeightResident ? v : 0]);

    row += static_cast<int64_t>(SHARED ? cluster_count() : gridDim.x) * kRows;
    x_row += a.x_step, dy_row += a.dy_step;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * TPR < width && is_row) {
        if constexpr (!kWeightResident) load_weight(weight[0], a, first + v * TPR);
        gradient(x[v], dy[v], weight[kWeightResident ? v : 0], a.weight_offset, scale, mean, dw[v]);
        store(dx_row, first + v * TPR, x[v]);
      }
      // Prefetches the next row into the registers that have just become free.
      if (first + v * TPR < width && row < a.rows) {
        load<kCached>(x[v], x_row, first + v * TPR);
        load<kCached>(dy[v], dy_row, first + v * TPR);
      }
    }
    dx_row += a.dx_step;
  }

  if (a.partial == nullptr) return;
  float* partial = a.partial + cluster_index() * a.width;
  if constexpr (kRows == 1) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * TPR < width) store_sums(partial, first + v * TPR, dw[v]);
  } else {
    // The rows that share the block add theirs one after another.
    __shared__ alignas(16) float sums[TPR * NV * N];
#pragma unroll 1
    for (int g = 0; g < kRows; ++g) {
      if (group == g) {
#pragma unroll
        for (int v = 0; v < NV; ++v) {
#pragma unroll
          for (int j = 0; j < N; ++j) {
            float* sum = sums + (first + v * TPR) * N + j;
            *sum = g == 0 ? dw[v][j] : *sum + dw[v][j];
          }
        }
      }
      __syncthreads();
    }
    for (int i = threadIdx.x; i < a.width; i += kBlockThreads<TPR>) partial[i] = sums[i];
  }
}

// Rows too wide for that: each is read a second time, from the caches as far as it is still there, and the block's sums
// lie in `partial` all the while. Any number of warps up to 16 a row.
template <typename T, int N>
__global__ void __launch_bounds__(512, 2) rms_norm_backward_rows_twice(const Arguments a) {
  constexpr int kGroup = 2;  // packs of each tensor in flight a thread
  __shared__ alignas(16) SumScratch scratch;
  const int64_t packs = a.width / N, step = blockDim.x;
  float* partial = a.partial + blockIdx.x * a.width;
  Pack<T, N> x[kGroup], dy[kGroup], weight[kGroup];

  int buffer = 0;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
    const T* dy_row = static_cast<const T*>(a.dy) + row * a.dy_stride;
    T* dx_row = static_cast<T*>(a.dx) + row * a.dx_stride;
    float2 total = make_float2(0.0f, 0.0f);
    for (int64_t first = threadIdx.x; first < packs; first += kGroup * step) {
#pragma unroll
      for (int v = 0; v < kGroup; ++v) {
        const int64_t i = first + v * step;
        if (i < packs) {
          load<kCached>(x[v], x_row, i);
          load<kCached>(dy[v], dy_row, i);
          load_weight(weight[v], a, i);
        }
      }
#pragma unroll
      for (int v = 0; v < kGroup; ++v)
        if (first + v * step < packs) add_products(x[v], dy[v], weight[v], a.weight_offset, total);
    }
    total = block_sums(total, scratch, buffer);
    buffer ^= 1;
    const float scale = rsqrtf(total.x * a.inverse_width + a.eps);
    const float mean = total.y * a.inverse_width * scale;

    for (int64_t first = threadIdx.x; first < packs; first += kGroup * step) {
#pragma unroll
      for (int v = 0; v < kGroup; ++v) {
        const int64_t i = first + v * step;
        if (i < packs) {
          load<kCached>(x[v], x_row, i);
          load<kCached>(dy[v], dy_row, i);
          load_weight(weight[v], a, i);
        }
      }
#pragma unroll
      for (int v = 0; v < kGroup; ++v) {
        const int64_t i = first + v * step;
        if (i < packs) {
          float dw[N] = {};
          // This thread wrote them at the row before; at the first row there are none.
          if (a.partial != nullptr && row != blockIdx.x) load_sums(dw, partial, i);
          gradient(x[v], dy[v], weight[v], a.weight_offset, scale, mean, dw);
          store(dx_row, i, x[v]);
          if (a.partial != nullptr) store_sums(partial, i, dw);
        }
      }
    }
  }
}

}  // namespace rmsnorm_backward
