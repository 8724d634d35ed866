// Rows too wide for registers: each is read a second time, from the caches as far as it is still there, and the block's sums
// lie in `partial` all the while.
#pragma once
#include "arguments.h"
#include "dependent.cuh"
#include "gradient.cuh"
#include "partial_sums.cuh"
#include "row_sums.cuh"

namespace rmsnorm_backward {
using namespace common;

// Any number of warps up to 16 a row, which is a block's.
template <typename T, int N>
__global__ void __launch_bounds__(512, 2) rms_norm_backward_twice(const Arguments a) {
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
    total = block_sums<16>(total, scratch, buffer, static_cast<int>(step / 32));
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
