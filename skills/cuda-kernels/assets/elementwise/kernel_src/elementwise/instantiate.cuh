// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "chain.cuh"
#include "elementwise.cuh"
#include "kernels.h"
#include "tuning.h"

namespace elementwise {

template <typename T, int N, int V>
const void* kernel_of(int tanh) {
  return reinterpret_cast<const void*>(tanh ? elementwise<T, N, V, BiasGeluScaleResidual<kTanh>, kInputs, kVectors>
                                            : elementwise<T, N, V, BiasGeluScaleResidual<kExact>, kInputs, kVectors>);
}

template <typename T>
const void* find_kernel(int packs, int access, int tanh) {
  constexpr int kSize = static_cast<int>(sizeof(T));
#define ELEMENTWISE_FIND(V) \
  if (packs == V && access == 16) return kernel_of<T, 16 / kSize, V>(tanh);
  ELEMENTWISE_LAYOUTS(ELEMENTWISE_FIND)
#undef ELEMENTWISE_FIND
  if (access == 16 || packs != kNarrowPacks) return nullptr;
  if constexpr (kSize == 2) {
    if (access == 4) return kernel_of<T, 2, kNarrowPacks>(tanh);
  }
  return kernel_of<T, 1, kNarrowPacks>(tanh);
}

}  // namespace elementwise
