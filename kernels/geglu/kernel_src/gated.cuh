// Gated activations: out = value * act(gate), and the gradients of value and gate from that of out.
//
// The floor is memory: each input is read once, each output written once. Element by element, so rows matter only for
// where they begin: threads take packs of N elements in the order of the tensor, whatever row they are of. Rows without
// gaps are one row; the few elements behind its last pack of 16 bytes have a block of their own.
#pragma once
#include "activation.cuh"
#include "arch.h"
#include "arguments.h"
#include "dependent.cuh"
#include "pack.cuh"

namespace geglu {
using namespace common;

// Where a pack is: its row, and the packs before it without those that lie between rows.
struct Place {
  uint32_t row, before;
};

// Of the i-th pack; BEHIND: of the i-th element behind all packs, which have so many each.
template <int BEHIND>
__device__ __forceinline__ Place place_of(uint32_t i, const GatedArguments& a) {
  if constexpr (BEHIND != 0) return {0, a.packs * BEHIND + i};
  return {a.by_row.quotient(i), i};
}

template <typename T, int N>
__device__ __forceinline__ void load_at(Pack<T, N>& pack, const void* p, uint32_t gap, const Place& at) {
  load<kCached>(pack, static_cast<const T*>(p), at.row * gap + at.before);
}

template <typename T, int N>
__device__ __forceinline__ void store_at(void* p, uint32_t gap, const Place& at, const Pack<T, N>& pack) {
  store(static_cast<T*>(p), at.row * gap + at.before, pack);
}

// Every blockDim.x-th of so many packs, from the first on. A thread with fewer than V of them loads the last one again,
// so that its loads have no branches between them.
template <typename T, int N, int V, Activation A, int BEHIND = 0>
__device__ __forceinline__ void gate_packs(const GatedArguments& a, uint32_t first, uint32_t packs) {
  Pack<T, N> value[V], gate[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (V > 1 || i < packs) {
      const Place at = place_of<BEHIND>(V > 1 ? min(i, packs - 1) : i, a);
      load_at(value[v], a.value, a.value_stride - a.packs_per_row, at);
      load_at(gate[v], a.gate, a.gate_stride - a.packs_per_row, at);
    }
  }
  if constexpr (V > 1) asm volatile("" ::: "memory");  // keeps the loads above the first branch: all are issued before one is waited for
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (i >= packs) return;
    float u[N], x[N];
    unpack(value[v], u);
    unpack(gate[v], x);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const Factors f = activate<A, false>(x[j]);
      u[j] = (u[j] * f.a) * (x[j] * f.b);
    }
    repack(value[v], u);
    store_at(a.out, a.out_stride - a.packs_per_row, place_of<BEHIND>(i, a), value[v]);
  }
}

template <typename T, int N, int V, Activation A, int FIRST, int LAST>
__global__ void __launch_bounds__(512) gated(const GatedArguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  wait_for_previous();
  const uint32_t first = blockIdx.x * (blockDim.x * V) + threadIdx.x;
  if constexpr (N * sizeof(T) == 16) {
    if (first >= a.packs) {  // all of the last block, where there is a tail
      if (blockIdx.x == gridDim.x - 1) gate_packs<T, 1, 1, A, N>(a, threadIdx.x, a.tail);
      return;
    }
  }
  gate_packs<T, N, V, A>(a, first, a.packs);
}

// d_value = dy * act(gate); d_gate = dy * value * act'(gate).
template <typename T, int N, int V, Activation A, int BEHIND = 0>
__device__ __forceinline__ void gate_packs_backward(const GatedArguments& a, uint32_t first, uint32_t packs) {
  Pack<T, N> value[V], gate[V], dy[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (V > 1 || i < packs) {
      const Place at = place_of<BEHIND>(V > 1 ? min(i, packs - 1) : i, a);
      load_at(value[v], a.value, a.value_stride - a.packs_per_row, at);
      load_at(gate[v], a.gate, a.gate_stride - a.packs_per_row, at);
      load_at(dy[v], a.dy, a.dy_stride - a.packs_per_row, at);
    }
  }
  if constexpr (V > 1) asm volatile("" ::: "memory");  // as above
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const uint32_t i = first + v * blockDim.x;
    if (i >= packs) return;
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
    const Place at = place_of<BEHIND>(i, a);
    store_at(a.d_gate, a.d_gate_stride - a.packs_per_row, at, gate[v]);
    store_at(a.d_value, a.d_value_stride - a.packs_per_row, at, value[v]);
  }
}

template <typename T, int N, int V, Activation A, int FIRST, int LAST>
__global__ void __launch_bounds__(512) gated_backward(const GatedArguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  wait_for_previous();
  const uint32_t first = blockIdx.x * (blockDim.x * V) + threadIdx.x;
  if constexpr (N * sizeof(T) == 16) {
    if (first >= a.packs) {  // all of the last block, where there is a tail
      if (blockIdx.x == gridDim.x - 1) gate_packs_backward<T, 1, 1, A, N>(a, threadIdx.x, a.tail);
      return;
    }
  }
  gate_packs_backward<T, N, V, A>(a, first, a.packs);
}

}  // namespace geglu
