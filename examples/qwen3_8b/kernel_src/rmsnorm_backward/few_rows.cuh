// Few rows: one kernel, of one cluster, which writes dw too.
//
// A second kernel costs more here than all the rows. Each warp holds a row, up to four packs a thread, and goes on with the
// row as many behind as the cluster has warps. The sums of dw are added over a block's warps in its shared memory, and over
// the blocks by reading that of the others, each block for its part of the columns. The order is always the same.
#pragma once
#include "beside.cuh"
#include "cluster.cuh"
#include "dependent.cuh"
#include "row_sums.cuh"
#include "tuning.h"
#include "weight_gradient.cuh"

namespace rmsnorm_backward {
using namespace common;

// The barrier of a cluster, after which each block sees what the others wrote to their shared memory before it.
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The value of the same variable in another block.
__device__ __forceinline__ float load_from(const float* p, int rank) {
  float value = 0.0f;
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(shared_address(p, rank)) : "memory");
#endif
  return value;
}

// Rows begin anywhere between multiples of 16 bytes, but at the same place in all three tensors. The rows of a warp are
// a multiple of 8 apart, so that they begin at the same place too.
template <typename T>
__global__ void __launch_bounds__(kFewRowsWarps * 32, 1)
    rms_norm_backward_few_rows(const Arguments a, const WeightGradientArguments w) {
  if constexpr (!kUsed<90>) {
    __trap();
    return;
  }
  constexpr int N = 16 / sizeof(T), NV = kFewRowsPacks / 32, kHalf = kFewRowsWarps / 2;
  constexpr int kStep = kFewRowsBlocks * kFewRowsWarps;
  static_assert(kStep % N == 0, "rows of a warp begin at the same place");
  // A warp's sums, then those of two; in [0] at last the block's.
  __shared__ float sums[kHalf][slot_of<N>((kFewRowsPacks + 1) * N)];
  wait_for_previous();

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = static_cast<int>(a.width);
  const int rank = cluster_rank(), rows = static_cast<int>(a.rows);
  int row = warp * kFewRowsBlocks + rank;  // a few rows: to all blocks
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* dy_row = static_cast<const T*>(a.dy) + row * a.dy_stride;
  T* dx_row = static_cast<T*>(a.dx) + row * a.dx_stride;
  const Ends<T> ends(x_row, width);
  const int head = ends.head, packs = ends.packs;
  Beside<T> one;
  one.choose(ends, lane);
  x_row += head, dy_row += head, dx_row += head;

  Pack<T, N> x[NV], dy[NV], weight[NV];
  float dw[NV][N] = {};
  if (row < rows) {
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (lane + v * 32 < packs) {
        load<kCached>(x[v], x_row, lane + v * 32);
        load<kCached>(dy[v], dy_row, lane + v * 32);
      }
    }
    if (one.is_here) one.load_row(x_row, dy_row), load_weight(one.weight, a, head + one.at);
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (lane + v * 32 < packs) load_weight_anywhere(weight[v], a, head + (lane + v * 32) * N);
  }
#pragma unroll 1
  while (row < rows) {
    float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (lane + v * 32 < packs) add_products(x[v], dy[v], weight[v], a.weight_offset, total);
    if (one.is_here) add_products(one.x, one.dy, one.weight, a.weight_offset, total);
    total = warp_sums(total, 32);
    const float scale = rsqrtf(total.x * a.inverse_width + a.eps);
    const float mean = total.y * a.inverse_width * scale;
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(x[v]), forget_products(dy[v]), keep_packed(weight[v]);

    row += kStep;
    x_row += kStep * a.x_stride, dy_row += kStep * a.dy_stride;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (lane + v * 32 < packs) {
        gradient(x[v], dy[v], weight[v], a.weight_offset, scale, mean, dw[v]);
        store(dx_row, lane + v * 32, x[v]);
        if (row < rows) {
          load<kCached>(x[v], x_row, lane + v * 32);
          load<kCached>(dy[v], dy_row, lane + v * 32);
        }
      }
    }
    if (one.is_here) {
      one.store_row(dx_row, a.weight_offset, scale, mean);
      if (row < rows) one.load_row(x_row, dy_row);
    }
    dx_row += kStep * a.dx_stride;
  }

  // The warps of this block that had a row: each of them has all columns. No others add anything.
  const int holders = min(kFewRowsWarps, (rows - rank + kFewRowsBlocks - 1) / kFewRowsBlocks);
  const auto each_sum = [&](auto f) {
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (lane + v * 32 < packs) {
#pragma unroll
        for (int j = 0; j < N; ++j) f(slot_of<N>(head + (lane + v * 32) * N + j), dw[v][j]);
      }
    }
    if (one.is_here) f(slot_of<N>(head + one.at), one.dw[0]);
  };
  if (warp >= kHalf && warp < holders) each_sum([&](int slot, float sum) { sums[warp - kHalf][slot] = sum; });
  __syncthreads();
  if (warp < kHalf && warp < holders) {
    const bool two = warp + kHalf < holders;
    each_sum([&](int slot, float sum) { sums[warp][slot] = two ? sum + sums[warp][slot] : sum; });
  }
  __syncthreads();
  for (int column = threadIdx.x; column < width; column += kFewRowsWarps * 32) {
    float sum = 0.0f;
    for (int i = 0; i < min(kHalf, holders); ++i) sum += sums[i][slot_of<N>(column)];
    sums[0][slot_of<N>(column)] = sum;  // read above by this thread alone
  }
  __syncwarp();
  cluster_barrier();
  const int share = (width + kFewRowsBlocks - 1) / kFewRowsBlocks, column = rank * share + static_cast<int>(threadIdx.x);
  if (static_cast<int>(threadIdx.x) < share && column < width) {
    float part[kFewRowsBlocks], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kFewRowsBlocks; ++i) part[i] = load_from(&sums[0][slot_of<N>(column)], i);
#pragma unroll
    for (int i = 0; i < kFewRowsBlocks; ++i) sum += part[i];
    store_weight_gradient<T>(w, column, sum);
  }
  __syncwarp();
  cluster_barrier();  // no block ends while another one reads its sums
}

}  // namespace rmsnorm_backward
