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
#include "beside.cuh"
#include "cluster.cuh"
#include "dependent.cuh"
#include "gradient.cuh"
#include "pack.cuh"
#include "partial_sums.cuh"
#include "row_sums.cuh"
#include "tuning.h"

namespace rmsnorm_backward {
using namespace common;

// The most threads of a block; rows of up to 32 threads share one.
template <int TPR, int BLOCKS>
constexpr int kBlockThreads = TPR > 32 ? TPR : shared_block_threads(BLOCKS);

template <int TPR, int BLOCKS>
constexpr int kWantedBlocks = TPR > 32 ? BLOCKS : kSharedBlocks;
template <int TPR, int BLOCKS>
constexpr int kBlocksPerSm = kWantedBlocks<TPR, BLOCKS> * kBlockThreads<TPR, BLOCKS> < kSmThreads
                                 ? kWantedBlocks<TPR, BLOCKS>
                                 : kSmThreads / kBlockThreads<TPR, BLOCKS>;

// Prefetches packs of a row into L2.
template <typename T, int N>
__device__ __forceinline__ void prefetch_packs(const T* row, int first, int end) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(row + first * N), "r"((end - first) * 16) : "memory");
#endif
}

// Row group g goes over the rows g, g + groups, ... (up to kRows of them at once, as many as the block has threads for); TPR
// threads share a row, and each holds NV packs of N elements of x and dy, and the sums of as many columns. BLOCKS blocks are to
// stand on an SM (of 128 threads where rows share them). A row group is a block; if SHARED, the blocks of a cluster, each of
// which has as many of the row's columns as the others. Blocks of one pack a thread and 128 threads or more have as many warps
// as the row needs, and TPR is the most.
//
// WHOLE: rows are whole packs. Else they begin anywhere between multiples of 16 bytes, but at the same place in all three
// tensors, and all rows of a row group begin at the same place: the launcher sees to both. So a thread has the same
// columns in each of its rows.
template <typename T, int N, int TPR, int NV, int BLOCKS, bool SHARED, bool WHOLE, int FIRST, int LAST>
__global__ void __launch_bounds__(kBlockThreads<TPR, BLOCKS>, kBlocksPerSm<TPR, BLOCKS>)
    rms_norm_backward_rows(const Arguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  // weight_gradient's blocks may then come where there is room, and wait for the sums.
  wait_for_previous();
  constexpr int kRows = kBlockThreads<TPR, BLOCKS> / TPR;
  static_assert(!SHARED || kRows == 1, "a row is shared by whole blocks");
  static_assert(TPR <= 32 || kRows == 1, "row_sums adds over a warp's lanes or over a block");
  static_assert(WHOLE || TPR * sizeof(T) >= 28, "a row has as many threads as elements beside its packs");
  // Whether the weight is resident in registers too; else it is loaded from L1 twice a row.
  constexpr bool kWeightResident = NV < 4 || TPR <= 32;
  static_assert(WHOLE || kWeightResident, "the weight of such rows is put together once");
  __shared__ alignas(16) std::conditional_t<SHARED, ClusterScratch, SumScratch> scratch;
  const int warps = NV == 1 && TPR >= 128 ? static_cast<int>(blockDim.x / 32) : (TPR + 31) / 32;
  if constexpr (SHARED) {
    begin_cluster(scratch);
  } else if constexpr (TPR > 32) {
    begin_block(scratch, warps);
  }

  const int group = kRows == 1 ? 0 : threadIdx.x / TPR;
  int first = kRows == 1 ? threadIdx.x : threadIdx.x % TPR;
  const int rows = kRows == 1 ? 1 : blockDim.x / TPR;
  const int64_t block_row = SHARED ? cluster_index() : static_cast<int64_t>(blockIdx.x) * rows, row = block_row + group;
  int64_t left = a.rows - block_row;  // rows from the block's first one on
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* dy_row = static_cast<const T*>(a.dy) + row * a.dy_stride;
  T* dx_row = static_cast<T*>(a.dx) + row * a.dx_stride;
  // The first column of a pack, and the end of this block's packs. The pointers are those of that column.
  int head = 0, packs = static_cast<int>(a.width / N);
  Beside<T> one;
  if constexpr (!WHOLE) {
    const Ends<T> ends(x_row, static_cast<int>(a.width));
    head = ends.head, packs = ends.packs;
    one.choose(ends, SHARED && cluster_rank() != 0 ? kNoThread : first);
    x_row += head, dy_row += head, dx_row += head;
  }
  if constexpr (SHARED) {
    // This block's part of the row, in whole warps.
    const int all = 32 * cluster_size(), share = (packs + all - 1) / all * 32, end = share * (cluster_rank() + 1);
    first += share * cluster_rank();
    packs = packs < end ? packs : end;
  }

  // In fp32 where a warp has few columns: to convert it twice a row takes a seventh of the instructions. F16 would spill.
  constexpr bool kFactorResident = !WHOLE && TPR <= 32 && NV == 1 && !std::is_same_v<T, F16>;
  Pack<T, N> x[NV], dy[NV], weight[kWeightResident ? NV : 1];
  float factor[NV][N];
  const auto weight_of = [&](int v) -> const auto& {
    if constexpr (kFactorResident) {
      return factor[v];
    } else {
      return weight[kWeightResident ? v : 0];
    }
  };
  float dw[NV][N] = {};
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (first + v * TPR < packs && group < left) {
      load<kCached>(x[v], x_row, first + v * TPR);
      load<kCached>(dy[v], dy_row, first + v * TPR);
    }
  }
  if constexpr (!WHOLE) {
    if (one.is_here && group < left) one.load_row(x_row, dy_row);
    if (one.is_here) load_weight(one.weight, a, head + one.at);
  }
  if constexpr (kWeightResident) {
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
  }

  // A thread has no registers for its next row until the present one is added up; the block prefetches that row into L2 at once.
  // H200, us: 20000 x 5120 155 (without 210), 8192 x 8192 106 (119), 7377 x 3521 60 (71). Blocks of narrower rows, more of which
  // stand on an SM, load at each other's barriers; prefetches cost them time: 12000 x 1536 35.1 (33.7). Of rows of a warp those
  // gain of which an SM has fewer than 60 KB in flight, 7843 x 1700 28.2 (30.0), 29837 x 1193 59.8 (59.2); but not those of two
  // packs a thread, 26667 x 500 26.3 (25.1).
  constexpr bool kPrefetches = TPR > 32 ? NV > 1 || !WHOLE : NV > 2 && NV * BLOCKS < 15 && N * sizeof(T) == 16;
  const bool prefetches = kPrefetches && (TPR > 32 ? threadIdx.x : first) == 0 && first < packs;
  // Not between the packs' gradients where rows share a block: the compiler would wait at each pack for the loads of the one
  // before. 23739 x 1216 69.7 us, and 47.8 so.
  constexpr bool kLoadsLast = TPR <= 32;
  const auto load_next = [&](int v) {
    if (first + v * TPR < packs && group < left) {
      load<kCached>(x[v], x_row, first + v * TPR);
      load<kCached>(dy[v], dy_row, first + v * TPR);
    }
  };
  if constexpr (SHARED) cluster_wait();
  // By the block's first row: all its threads take part in as many reductions.
#pragma unroll 1
  for (int round = 0; left > 0; round = (round + 1) % 4) {
    const bool is_row = kRows == 1 || group < left;
    if (prefetches && group < left - a.step) {
      prefetch_packs<T, N>(x_row + a.x_step, first, packs);
      prefetch_packs<T, N>(dy_row + a.dy_step, first, packs);
    }
    float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * TPR < packs && is_row) {
        if constexpr (!kWeightResident) load_weight(weight[0], a, first + v * TPR);
        add_products(x[v], dy[v], weight_of(v), a.weight_offset, total);
      }
    }
    if constexpr (!WHOLE) {
      if (one.is_here && is_row) add_products(one.x, one.dy, one.weight, a.weight_offset, total);
    }
    if constexpr (SHARED) {
      total = cluster_sums(total, scratch, round, warps);
    } else {
      total = row_sums<TPR>(total, scratch, round % 2, warps);
    }
    const float scale = rsqrtf(total.x * a.inverse_width + a.eps);
    const float mean = total.y * a.inverse_width * scale;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      keep_packed(x[v]), forget_products(dy[v]);
      if constexpr (!kFactorResident) keep_packed(weight[kWeightResident ? v : 0]);
    }

    left -= a.step;
    x_row += a.x_step, dy_row += a.dy_step;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * TPR < packs && is_row) {
        if constexpr (!kWeightResident) load_weight(weight[0], a, first + v * TPR);
        gradient(x[v], dy[v], weight_of(v), a.weight_offset, scale, mean, dw[v]);
        store(dx_row, first + v * TPR, x[v]);
      }
      // The next row, into the registers that have just become free.
      if constexpr (!kLoadsLast) load_next(v);
    }
    if constexpr (kLoadsLast) {
#pragma unroll
      for (int v = 0; v < NV; ++v) load_next(v);
    }
    if constexpr (!WHOLE) {
      if (one.is_here && is_row) one.store_row(dx_row, a.weight_offset, scale, mean);
      if (one.is_here && group < left) one.load_row(x_row, dy_row);
    }
    dx_row += a.dx_step;
  }

  if (a.partial == nullptr) return;
  float* partial = a.partial + cluster_index() * a.width;
  if constexpr (kRows == 1 && WHOLE) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * TPR < packs) store_sums(partial, first + v * TPR, dw[v]);
  } else if constexpr (kRows == 1) {
    // A pack's sums begin anywhere between multiples of 16 bytes. Stored by their thread they would take eight times as many
    // sectors: 98 x 6530 12.4 us, through shared memory 7.8.
    extern __shared__ float sums_of_packs[];
    static_assert(NV == 1, "a thread has one pack");
#pragma unroll
    for (int j = 0; j < N; ++j) sums_of_packs[slot_of<N>(threadIdx.x * N + j)] = dw[0][j];
    if (one.is_here) partial[head + one.at] = one.dw[0];
    __syncthreads();
    const int before = first - static_cast<int>(threadIdx.x);  // packs of the cluster's blocks before this one
    float* const own = partial + head + before * N;
    for (int i = threadIdx.x; i < (packs - before) * N; i += blockDim.x) own[i] = sums_of_packs[slot_of<N>(i)];
  } else {
    // The rows that share the block lay theirs side by side; each has all columns. 94414 x 132 24.6 us; one after another into
    // the same sums 26.4.
    __shared__ float sums[kRows][slot_of<N>((TPR * NV + 1) * N)];
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * TPR < packs) {
#pragma unroll
        for (int j = 0; j < N; ++j) sums[group][slot_of<N>(head + (first + v * TPR) * N + j)] = dw[v][j];
      }
    }
    if (!WHOLE && one.is_here) sums[group][slot_of<N>(head + one.at)] = one.dw[0];
    __syncthreads();
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
}

// Rows too wide for that: each is read a second time, from the caches as far as it is still there, and the block's sums
// lie in `partial` all the while. Any number of warps up to 16 a row.
template <typename T, int N>
__global__ void __launch_bounds__(512, 2) rms_norm_backward_rows_twice(const Arguments a) {
  wait_for_previous();
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
