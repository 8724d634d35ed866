// Rows of up to a warp: many share a block.
//
// Few large blocks have them all, for each leaves a row of partial sums: those of its warps' rows are added in shared memory.
#pragma once
#include <type_traits>

#include "rms_norm_backward.cuh"

namespace rmsnorm_backward {
using namespace common;

// The blocks that a layout of so many blocks of 128 threads is: kSharedBlocks an SM, as far as it holds them.
template <int BLOCKS>
constexpr int kSharedThreads = shared_block_threads(BLOCKS);
template <int BLOCKS>
constexpr int kSharedBlocksPerSm = kBlocksPerSm<kSharedThreads<BLOCKS>, kSharedBlocks>;

// Block b goes over the rows b * rows, ... and as many behind each a.step; TPR threads share one, and each holds NV packs of N
// elements of x and dy, and the sums of as many columns.
//
// WHOLE: rows are whole packs. Else they begin anywhere between multiples of 16 bytes, but at the same place in all three
// tensors, and all rows of a thread begin at the same place: the launcher sees to both. So a thread has the same columns in
// each of its rows.
template <typename T, int N, int TPR, int NV, int BLOCKS, bool WHOLE, int FIRST, int LAST>
__global__ void __launch_bounds__(kSharedThreads<BLOCKS>, kSharedBlocksPerSm<BLOCKS>)
    rms_norm_backward_warps(const Arguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  wait_for_previous();
  static_assert(WHOLE || TPR * sizeof(T) >= 28, "a row has as many threads as elements beside its packs");
  constexpr int kMostRows = kSharedThreads<BLOCKS> / TPR;
  const int group = threadIdx.x / TPR, first = threadIdx.x % TPR, rows = blockDim.x / TPR;
  const int64_t block_row = static_cast<int64_t>(blockIdx.x) * rows, row = block_row + group;
  int64_t left = a.rows - block_row;  // rows from the block's first one on
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* dy_row = static_cast<const T*>(a.dy) + row * a.dy_stride;
  T* dx_row = static_cast<T*>(a.dx) + row * a.dx_stride;
  // The first column of a pack. The pointers are those of that column.
  int head = 0, packs = static_cast<int>(a.width / N);
  Beside<T> one;
  if constexpr (!WHOLE) {
    const Ends<T> ends(x_row, static_cast<int>(a.width));
    head = ends.head, packs = ends.packs;
    one.choose(ends, first);
    x_row += head, dy_row += head, dx_row += head;
  }

  // In fp32 where a warp has few columns: to convert it twice a row takes a seventh of the instructions. F16 would spill.
  constexpr bool kFactorResident = !WHOLE && NV == 1 && !std::is_same_v<T, F16>;
  Pack<T, N> x[NV], dy[NV], weight[NV];
  float factor[NV][N];
  const auto weight_of = [&](int v) -> const auto& {
    if constexpr (kFactorResident) {
      return factor[v];
    } else {
      return weight[v];
    }
  };
  const auto load_row = [&] {
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * TPR < packs && group < left) {
        load<kCached>(x[v], x_row, first + v * TPR);
        load<kCached>(dy[v], dy_row, first + v * TPR);
      }
    }
    if constexpr (!WHOLE) {
      if (one.is_here && group < left) one.load_row(x_row, dy_row);
    }
  };
  float dw[NV][N] = {};
  load_row();
  if (!WHOLE && one.is_here) load_weight(one.weight, a, head + one.at);
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (first + v * TPR < packs) {
      if constexpr (WHOLE) {
        load_weight(weight[v], a, first + v * TPR);
      } else {
        load_weight_anywhere(weight[v], a, head + (first + v * TPR) * N);
        if constexpr (kFactorResident) get_factor(factor[v], weight[v], a.weight_offset);
      }
    }
  }

  // Those rows gain by a prefetch of which an SM has fewer than 60 KB in flight: H200, us, 7843 x 1700 28.2 (without 30.0), 29837 x
  // 1193 59.8 (59.2). Not those of two packs a thread, 26667 x 500 26.3 (25.1).
  constexpr bool kPrefetches = NV > 2 && NV * BLOCKS < 15 && N * sizeof(T) == 16;
  const bool prefetches = kPrefetches && first == 0 && first < packs;
  // By the block's first row: all its threads take part in as many reductions.
#pragma unroll 1
  while (left > 0) {
    const bool is_row = group < left;
    if (prefetches && group < left - a.step) {
      prefetch_packs<T, N>(x_row + a.x_step, 0, packs);
      prefetch_packs<T, N>(dy_row + a.dy_step, 0, packs);
    }
    float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * TPR < packs && is_row) add_products(x[v], dy[v], weight_of(v), a.weight_offset, total);
    if constexpr (!WHOLE) {
      if (one.is_here && is_row) add_products(one.x, one.dy, one.weight, a.weight_offset, total);
    }
    total = warp_sums<TPR>(total);
    const float scale = rsqrtf(total.x * a.inverse_width + a.eps);
    const float mean = total.y * a.inverse_width * scale;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      keep_packed(x[v]), forget_products(dy[v]);
      if constexpr (!kFactorResident) keep_packed(weight[v]);
    }

    left -= a.step;
    x_row += a.x_step, dy_row += a.dy_step;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * TPR < packs && is_row) {
        gradient(x[v], dy[v], weight_of(v), a.weight_offset, scale, mean, dw[v]);
        store(dx_row, first + v * TPR, x[v]);
      }
    }
    if constexpr (!WHOLE) {
      if (one.is_here && is_row) one.store_row(dx_row, a.weight_offset, scale, mean);
    }
    // Not between the packs' gradients: the compiler would wait at each pack for the loads of the one before. 23739 x 1216
    // 69.7 us, and 47.8 so.
    load_row();
    dx_row += a.dx_step;
  }

  if (a.partial == nullptr) return;
  // The rows that share the block lay theirs side by side; each has all columns. 94414 x 132 24.6 us; one after another into
  // the same sums 26.4.
  __shared__ float sums[kMostRows][slot_of<N>((TPR * NV + 1) * N)];
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (first + v * TPR < packs) {
#pragma unroll
      for (int j = 0; j < N; ++j) sums[group][slot_of<N>(head + (first + v * TPR) * N + j)] = dw[v][j];
    }
  }
  if (!WHOLE && one.is_here) sums[group][slot_of<N>(head + one.at)] = one.dw[0];
  __syncthreads();
  float* const partial = a.partial + blockIdx.x * a.width;
  constexpr int kColumns = NV > 1 ? 4 : 1;  // a thread and round
  for (int i = threadIdx.x; i < a.width; i += kColumns * blockDim.x) {
    float sum[kColumns] = {};
#pragma unroll 4
    for (int g = 0; g < rows; ++g) {
#pragma unroll
      for (int k = 0; k < kColumns; ++k) {
        const int column = i + k * blockDim.x;
        if (k == 0 || column < a.width) sum[k] += sums[g][slot_of<N>(column)];
      }
    }
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      const int column = i + k * blockDim.x;
      if (k == 0 || column < a.width) partial[column] = sum[k];
    }
  }
}

}  // namespace rmsnorm_backward
