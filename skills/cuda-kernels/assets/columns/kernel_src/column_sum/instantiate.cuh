// Instantiates the kernels for one element type.
#pragma once
#include "column_sum.cuh"
#include "kernels.h"

namespace column_sum {

template <typename T>
const void* find_kernel(int access) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  if (access == 16) return reinterpret_cast<const void*>(column_sum_rows<T, 16 / kSize>);
  if constexpr (kSize == 2) {
    if (access == 4) return reinterpret_cast<const void*>(column_sum_rows<T, 2>);
  }
  return reinterpret_cast<const void*>(column_sum_rows<T, 1>);
}

}  // namespace column_sum
