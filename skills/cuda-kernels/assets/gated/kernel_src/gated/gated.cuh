// Gated activations: out = value * act(gate), and the gradients of value and gate from that of out.
//
// The floor is memory: each input is read once, each output written once. Element by element, so rows matter only for
// where they begin: threads take packs of N elements in the order of the tensor, whatever row they are of.
#pragma once
#include "activation.cuh"
#include "arch.h"
#include "arguments.h"
#include "dependent.cuh"
#include "pack.cuh"

namespace geglu {
using namespace common;

// Where a pack is.
struct Place {
  int64_t row;
  uint32_t column;  // in packs
};

__device__ __forceinline__ Place place_of(uint32_t i, const GatedArguments& a) {
  const uint32_t row = a.by_row.quotient(i);
  return {row, i - row * a.packs_per_row};
}

template <typename T, int N>
__device__ __forceinline__ void load_at(Pack<T, N>& pack, const void* p, int64_t stride, const Place& at) {
  load<kCached>(pack, static_cast<const T*>(p) + at.row * stride, at.column);
}

template <typename T, int N>
__device__ __forceinline__ void store_at(void* p, int64_t stride, const Place& at, const Pack<T, N>& pack) {
  store(static_cast<T*>(p) + at.row * stride, at.column, pack);
}

template <typename T, int N, int V, Activation A, int FIRST, int LAST>
__global__ void __launch_bounds__(512) gated(const GatedArguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  wait_for_previous();
  const uint32_t first = blockIdx.x * (blockDim.x * V) + threadIdx.x;
  Pack<T, N> value[V], gate[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (i < a.packs) {
      const Place at = place_of(i, a);
      load_at(value[v], a.value, a.value_stride, at);
      load_at(gate[v], a.gate, a.gate_stride, at);
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (i < a.packs) {
      float u[N], x[N];
      unpack(value[v], u);
      unpack(gate[v], x);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const Factors f = activate<A, false>(x[j]);
        u[j] = (u[j] * f.a) * (x[j] * f.b);
      }
      repack(value[v], u);
      store_at(a.out, a.out_stride, place_of(i, a), value[v]);
    }
  }
}

// d_value = dy * act(gate); d_gate = dy * value * act'(gate).
template <typename T, int N, int V, Activation A, int FIRST, int LAST>
__global__ void __launch_bounds__(512) gated_backward(const GatedArguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  wait_for_previous();
  const uint32_t first = blockIdx.x * (blockDim.x * V) + threadIdx.x;
  Pack<T, N> value[V], gate[V], dy[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (i < a.packs) {
      const Place at = place_of(i, a);
      load_at(value[v], a.value, a.value_stride, at);
      load_at(gate[v], a.gate, a.gate_stride, at);
      load_at(dy[v], a.dy, a.dy_stride, at);
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (i < a.packs) {
      float u[N], x[N], d[N];
      unpack(value[v], u);
      unpack(gate[v], x);
      unpack(dy[v], d);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const Factors f = activate<A, true>(x[j]);
        const float scaled = d[j] * f.a;
        u[j] = scaled * (u[j] * f.d);  // of the gate
        x[j] = scaled * (x[j] * f.b);  // of the value
      }
      repack(gate[v], u);
      repack(value[v], x);
      const Place at = place_of(i, a);
      store_at(a.d_gate, a.d_gate_stride, at, gate[v]);
      store_at(a.d_value, a.d_value_stride, at, value[v]);
    }
  }
}

}  // namespace geglu
