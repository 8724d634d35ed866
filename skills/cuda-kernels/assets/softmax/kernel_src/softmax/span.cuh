// Which of a row's elements wide accesses reach.
#pragma once
#include <cstdint>

namespace softmax {

// A row that begins at any element: `head` elements up to the first aligned address, `packs` accesses of N elements,
// and the rest. Head and rest are the edges, at most 2 (N - 1), one a thread. In a vocabulary of 50257 every second
// row or more begins like that, and its accesses are 16 bytes all the same.
template <int N>
struct Span {
  int head, packs, edges;

  // The row's element that the i-th edge is.
  __device__ __forceinline__ int edge(int i) const { return i < head ? i : packs * N + i; }
};

template <int N, typename T>
__device__ __forceinline__ Span<N> span_of(const T* row, int width) {
  Span<N> span;
  const int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % N);
  span.head = past == 0 ? 0 : min(N - past, width);
  span.packs = (width - span.head) / N;
  span.edges = width - span.packs * N;
  return span;
}

}  // namespace softmax
