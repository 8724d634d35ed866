// dw from the partial sums.
#pragma once
#include "arch.h"
#include "arguments.h"
#include "dependent.cuh"
#include "pack.cuh"

namespace rmsnorm_backward {
using namespace common;

// dw of 8 columns a block, in which every 8 threads share a row of partial: 32 bytes, what the memory moves at least.
// Any number of warps up to 32; the order of the sum depends on it and on the number of rows alone. Few registers: beside
// the rows' kernel, where that takes 40 for each of 1,536 threads, an SM has room for 128 threads of 32.
template <typename T>
__global__ void __launch_bounds__(1024, kSmThreads / 1024) weight_gradient(const WeightGradientArguments a) {
  constexpr int kColumns = 8, kInFlight = 8;
  __shared__ float sums[32][kColumns];
  wait_for_previous();  // until all blocks' sums are there
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + lane % kColumns;
  const bool inside = column < a.width;
  const int step = blockDim.x / kColumns, first = threadIdx.x / kColumns;
  const float* partial = a.partial + first * a.width + column;

  float sum = 0.0f;
#pragma unroll 1
  for (int left = inside ? static_cast<int>(a.blocks) - first : 0; left > 0; left -= kInFlight * step) {
    float part[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      part[k] = left > k * step ? *partial : 0.0f;
      partial += step * a.width;
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) sum += part[k];
  }
#pragma unroll
  for (int d = kColumns; d < 32; d *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (lane < kColumns) sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0) return;
  sum = 0.0f;
  for (int w = lane / kColumns; w < static_cast<int>(blockDim.x / 32); w += 32 / kColumns)
    sum += sums[w][lane % kColumns];
#pragma unroll
  for (int d = kColumns; d < 32; d *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (lane >= kColumns || !inside) return;
  if (a.dw_f32 != nullptr) a.dw_f32[column] = sum;
  if (a.dw != nullptr) {
    Pack<T, 1> pack;
    const float one[1] = {sum};
    repack(pack, one);
    store(static_cast<T*>(a.dw), column, pack);
  }
}

}  // namespace rmsnorm_backward
