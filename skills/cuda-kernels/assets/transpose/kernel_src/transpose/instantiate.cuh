// Instantiates every layout of tuning.h for one element size.
#pragma once
#include "kernels.h"
#include "transpose.cuh"

namespace transpose {

template <typename T>
const void* find_kernel(const Layout& layout) {
#define TRANSPOSE_FIND(DOWN, ACROSS)                  \
  if (layout.down == DOWN && layout.across == ACROSS) \
    return reinterpret_cast<const void*>(transpose_blocks<T, DOWN, ACROSS>);
  TRANSPOSE_LAYOUTS(TRANSPOSE_FIND)
#undef TRANSPOSE_FIND
  return nullptr;
}

}  // namespace transpose
