// out[column] = the sum over the rows of x[row, column], in fp32.
//
// The floor is memory: x is read once. Rows are parted into groups, so that there are blocks for every SM; each block sums
// a strip of columns over one group. The groups' sums are added by a second kernel, or where a strip's groups are a cluster,
// by the first of its blocks. No atomics: every sum has a fixed order, and the same number of groups gives the same
// bits.
#pragma once
#include "arguments.h"
#include "cluster.cuh"
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

// Code that can run in clusters: for sm_90 and sm_100, for on sm_120 it spills. Smaller accesses leave too few columns a strip
// to be worth it.
template <typename T, int N>
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
constexpr bool kInClusters = Pack<T, N>::kBytes == 16;
#else
constexpr bool kInClusters = false;
#endif

// What the first block of a cluster receives: the sums of each group, two columns at a time.
template <int COLUMNS>
struct Received {
  float2 sums[kMostBlocksOfACluster][COLUMNS / 2];
  Mbarrier barrier;
};

template <int COLUMNS>
__device__ __forceinline__ void begin_cluster(Received<COLUMNS>& received, int bytes) {
  if (threadIdx.x == 0) {
    mbarrier_init(received.barrier);
    mbarrier_init_fence();
    mbarrier_expect(received.barrier, bytes);  // in the other blocks nobody waits for it
  }
  __syncwarp();
  cluster_arrive();
}

// Each block sends the sums of its rows of threads, `rows` rows of `columns`, to the first, which adds the groups'.
template <typename T, int COLUMNS>
__device__ __forceinline__ void add_in_cluster(const ColumnSumArguments& a, const float* sums, int rows, int columns,
                                               Received<COLUMNS>& received) {
  cluster_wait();  // the first block has its mbarrier
  for (int i = threadIdx.x; i < columns / 2; i += kThreads) {
    float2 total = make_float2(0.0f, 0.0f);
    for (int r = 0; r < rows; ++r) {
      const float2 s = reinterpret_cast<const float2*>(sums + r * columns)[i];
      total.x += s.x;
      total.y += s.y;
    }
    send(&received.sums[blockIdx.y][i], received.barrier, 0, total);
  }
  if (blockIdx.y != 0) return;
  mbarrier_wait(received.barrier, 0);
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    const int64_t column = static_cast<int64_t>(blockIdx.x) * columns + i;
    if (column >= a.width) return;
    float total = 0.0f;
    for (int g = 0; g < a.groups; ++g) total += reinterpret_cast<const float*>(received.sums[g])[i];
    store_sum<T>(a, column, total);
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
  __shared__ alignas(8) float sums[kThreads * N];
  __shared__ Received<kMostLanes * N> received;
  const bool in_cluster = kInClusters<T, N> && a.partial == nullptr && a.groups > 1;
  if constexpr (kInClusters<T, N>) {
    if (in_cluster) begin_cluster(received, a.groups * a.lanes * N * 4);
  }
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
  if constexpr (kInClusters<T, N>) {
    if (in_cluster) return add_in_cluster<T>(a, sums, step, columns, received);
  }
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
