// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "gated.cuh"
#include "kernels.h"

namespace geglu {

template <typename T, int N, int V, Activation A, int FIRST, int LAST>
const void* kernel_of(bool backward) {
  return reinterpret_cast<const void*>(backward ? gated_backward<T, N, V, A, FIRST, LAST>
                                                : gated<T, N, V, A, FIRST, LAST>);
}

template <typename T, int N, Activation A>
const void* find_kernel(const Layout& layout, bool backward) {
#define GATED_FIND(ACCESS, PACKS, FIRST, LAST) \
  if constexpr (N * sizeof(T) == ACCESS)       \
    if (layout.packs == PACKS) return kernel_of<T, N, PACKS, A, FIRST, LAST>(backward);
  GATED_LAYOUTS(GATED_FIND)
#undef GATED_FIND
  return nullptr;
}

template <typename T, int N>
const void* find_kernel(const Layout& layout, Activation activation, bool backward) {
  switch (activation) {
    case kGelu: return find_kernel<T, N, kGelu>(layout, backward);
    case kGeluTanh: return find_kernel<T, N, kGeluTanh>(layout, backward);
    default: return find_kernel<T, N, kSilu>(layout, backward);
  }
}

template <typename T>
const void* find_kernel(const Layout& layout, int access, Activation activation, bool backward) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  if (access == 16) return find_kernel<T, 16 / kSize>(layout, activation, backward);
  if constexpr (kSize == 2) {
    if (access == 4) return find_kernel<T, 2>(layout, activation, backward);
  }
  return find_kernel<T, 1>(layout, activation, backward);
}

}  // namespace geglu
