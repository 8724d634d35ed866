// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "cross_entropy.cuh"
#include "kernels.h"
#include "softmax.cuh"

namespace softmax {

template <typename K>
const void* address(K* kernel) {
  return reinterpret_cast<const void*>(kernel);
}

template <typename T, int N>
const void* find_kernel(Operation operation, const Layout& layout) {
  constexpr bool kWide = N * sizeof(T) == 16;
  if (operation == kSoftmax) {
    if (layout.packs == 0) {
      if (layout.threads == 128) return kWide ? nullptr : address(softmax_rows_twice<T, 1, 128>);
      if (layout.threads == 1024) return kWide ? address(softmax_rows_twice<T, 16 / sizeof(T), 1024>) : nullptr;
      return layout.threads == 512 ? address(softmax_rows_twice<T, N, 512>) : nullptr;
    }
#define SOFTMAX_FIND(THREADS, PACKS, CLUSTER, KEPT, FIRST, LAST)                       \
  if (layout.threads == THREADS && layout.packs == PACKS && layout.cluster == CLUSTER) \
    return address(softmax_rows<T, N, THREADS, PACKS, CLUSTER, KEPT, FIRST, LAST>);
    if constexpr (kWide) {
      SOFTMAX_LAYOUTS(SOFTMAX_FIND)
    }
#undef SOFTMAX_FIND
    return nullptr;
  }
  if (operation == kCrossEntropy) {
    // The logits' own alignment decides, row by row: nothing else moves with them.
    if constexpr (kWide) {
      if (layout.threads == 32) return address(cross_entropy_rows<T, N, 32>);
      if (layout.threads == 512) return address(cross_entropy_rows<T, N, 512>);
    }
    return nullptr;
  }
  if (layout.threads == 32) return address(cross_entropy_backward_rows<T, N, 32>);
  if (layout.threads == 256) return address(cross_entropy_backward_rows<T, N, 256>);
  return nullptr;
}

template <typename T>
const void* find_kernel(Operation operation, const Layout& layout, bool wide) {
  return wide ? find_kernel<T, 16 / sizeof(T)>(operation, layout) : find_kernel<T, 1>(operation, layout);
}

}  // namespace softmax
