// out[column] = the sum over the rows of x[row, column], in fp32.
//
// The floor is memory: x is read once. Rows are parted into groups, so that there are blocks for every SM; each block sums
// a strip of columns over one group, and a second kernel adds the groups' sums. No atomics: every sum has a fixed order,
// and the same number of groups gives the same bits.
#pragma once
#include "arguments.h"
#include "pack.cuh"
#include "tuning.h"

namespace column_sum {
using namespace common;

// A column's sum, in either type or both.
template <typename T>
__device__ __forceinline__ void store_sum(const ColumnSumArguments& a, int64_t column, float sum) {
  if (a.out_f32 != nullptr) a.out_f32[column] = sum;
  if (a.out != nullptr) {
    Pack<T, 1> pack;
    const float one[1] = {sum};
    repack(pack, one);
    store(static_cast<T*>(a.out), column, pack);
  }
}

// Block (x, y) sums strip x over group y. Its threads are rows of `lanes`; each has N columns in fp32 registers and goes
// down every (threads / lanes)th row, with several loads under way.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads, kBlocksOfAnSM) column_sum_rows(const ColumnSumArguments a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  // The second kernel's blocks may come where there is room, and wait for the sums.
  if (a.partial != nullptr) asm volatile("griddepcontrol.launch_dependents;");
#endif
  constexpr int kLoads = kInFlight<Pack<T, N>::kBytes>;
  __shared__ float sums[kThreads * N];
  const int lane = threadIdx.x % a.lanes, first = threadIdx.x / a.lanes, step = kThreads / a.lanes;
  const int64_t pack = static_cast<int64_t>(blockIdx.x) * a.lanes + lane, start = blockIdx.y * a.rows_per_group;
  const int64_t end = start + a.rows_per_group < a.rows ? start + a.rows_per_group : a.rows;
  const T* x = static_cast<const T*>(a.x) + (start + first) * a.stride;

  float sum[N] = {};
  if (pack < a.width / N) {
#pragma unroll 1
    for (int64_t left = end - start - first; left > 0; left -= kLoads * step) {
      Pack<T, N> v[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        if (left > k * step) {
          load<kCached>(v[k], x, pack);
        } else {
          v[k] = {};  // bits of zero are zero in every type
        }
        x += step * a.stride;
      }
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        float f[N];
        unpack(v[k], f);
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] += f[j];
      }
    }
  }

  // The rows of threads, one after another: a thread a column.
#pragma unroll
  for (int j = 0; j < N; ++j) sums[threadIdx.x * N + j] = sum[j];
  __syncthreads();
  const int columns = a.lanes * N;
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    const int64_t column = static_cast<int64_t>(blockIdx.x) * columns + i;
    if (column >= a.width) return;
    float total = 0.0f;
    for (int r = 0; r < step; ++r) total += sums[r * columns + i];
    if (a.partial != nullptr) {
      a.partial[blockIdx.y * a.width + column] = total;
    } else {
      store_sum<T>(a, column, total);
    }
  }
}

// Adds the groups' sums of 8 columns a block, in which every 8 threads share a row of partial: 32 bytes, what the memory
// moves at least. Any number of warps up to 16, by the number of groups alone: the order of the sum depends on it.
template <typename T>
__global__ void __launch_bounds__(512) column_sum_groups(const ColumnSumArguments a) {
  constexpr int kColumns = 8, kLoads = 8;
  __shared__ float sums[16][kColumns];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");  // until all groups' sums are there
#endif
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + lane % kColumns;
  const int step = blockDim.x / kColumns, first = threadIdx.x / kColumns;
  const float* partial = a.partial + first * a.width + column;

  float sum = 0.0f;
#pragma unroll 1
  for (int left = column < a.width ? a.groups - first : 0; left > 0; left -= kLoads * step) {
    float part[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k, partial += step * a.width) part[k] = left > k * step ? *partial : 0.0f;
#pragma unroll
    for (int k = 0; k < kLoads; ++k) sum += part[k];
  }
#pragma unroll
  for (int d = kColumns; d < 32; d *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (lane < kColumns) sums[warp][lane] = sum;
  __syncthreads();
  if (threadIdx.x >= kColumns || column >= a.width) return;
  sum = 0.0f;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) sum += sums[w][lane];
  store_sum<T>(a, column, sum);
}

}  // namespace column_sum
