// out[row, column] = chain(inputs[row, column]..., vectors[column]...), for a chain of operations on single elements.
//
// The floor is memory: each tensor is read or written once, and what lies between the operations stays in registers. All
// packs of all rows are one sequence, so that every thread is busy whatever the width. out may lie on an input: a thread
// has read what it writes over.
#pragma once
#include "arguments.h"
#include "dependent.cuh"
#include "pack.cuh"

namespace elementwise {
using namespace common;

// V packs of N elements a thread, a block's width apart. All loads are on their way before the first is waited for.
template <typename T, int N, int V, typename Chain, int I, int C>
__global__ void __launch_bounds__(512) elementwise(const ElementwiseArguments<I, C> a) {
  wait_for_previous();
  const uint32_t first = blockIdx.x * (blockDim.x * V) + threadIdx.x;
  Pack<T, N> input[V][I], vector[V][C];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (i < a.packs) {
      const uint32_t row = a.by_row.quotient(i), column = i - row * a.packs_per_row;
#pragma unroll
      for (int t = 0; t < I; ++t)
        load<kCached>(input[v][t], static_cast<const T*>(a.input[t]) + row * a.input_stride[t], column);
#pragma unroll
      for (int t = 0; t < C; ++t) load<kCached>(vector[v][t], static_cast<const T*>(a.vector[t]), column);
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (i < a.packs) {
      float x[I][N], y[C][N], out[N];
#pragma unroll
      for (int t = 0; t < I; ++t) unpack(input[v][t], x[t]);
#pragma unroll
      for (int t = 0; t < C; ++t) unpack(vector[v][t], y[t]);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        float of_element[I], of_column[C];
#pragma unroll
        for (int t = 0; t < I; ++t) of_element[t] = x[t][j];
#pragma unroll
        for (int t = 0; t < C; ++t) of_column[t] = y[t][j];
        out[j] = Chain()(of_element, of_column);
      }
      Pack<T, N> pack;
      repack(pack, out);
      const uint32_t row = a.by_row.quotient(i);
      store(static_cast<T*>(a.out) + row * a.out_stride, i - row * a.packs_per_row, pack);
    }
  }
}

}  // namespace elementwise
