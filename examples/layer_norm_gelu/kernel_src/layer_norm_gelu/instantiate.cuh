// Instantiates every layout for one element type.
#pragma once
#include "kernels.h"
#include "layer_norm_gelu.cuh"
#include "layouts.h"

// Not for other units: projects that are linked into one library have functions of these names.
namespace {

template <typename T, bool TANH>
Kernel find(int64_t rows, int64_t width, bool whole) {
  constexpr int kMany = 16 / static_cast<int>(sizeof(T));
  if (!whole) return {layer_norm_gelu_any<T, 1, kAnyThreads, TANH>, kAnyThreads, 1};
  const int64_t packs = width / kMany;
  // Eight packs of 16-bit elements a thread would spill.
#define FIND(PACKS, FEWEST, THREADS, NV, ROWS, BLOCKS)                                  \
  static_assert(THREADS % 32 == 0 && THREADS * NV >= PACKS, "a row has no room");       \
  if constexpr (NV < 8 || sizeof(T) == 4) {                                             \
    if (packs <= PACKS && rows >= FEWEST)                                               \
      return {layer_norm_gelu_rows<T, THREADS, NV, ROWS, BLOCKS, TANH>, THREADS, ROWS}; \
  }
  LAYOUTS(FIND)
#undef FIND
  return {layer_norm_gelu_any<T, kMany, kAnyThreads, TANH>, kAnyThreads, 1};
}

template <typename T>
Kernel find(int64_t rows, int64_t width, bool whole, bool tanh) {
  return tanh ? find<T, true>(rows, width, whole) : find<T, false>(rows, width, whole);
}

}  // namespace
