// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "kernels.h"
#include "rope.cuh"

namespace rope {

template <typename T, typename TABLE>
const void* find_heads_kernel(const Layout& layout, bool norm) {
  constexpr int N = 16 / static_cast<int>(sizeof(T));
#define ROPE_FIND(NORM, HEADS, REGISTERS)    \
  if (norm == NORM && layout.heads == HEADS) \
    return reinterpret_cast<const void*>(rope_heads<T, TABLE, N, HEADS, NORM, REGISTERS>);
  ROPE_LAYOUTS(ROPE_FIND)
#undef ROPE_FIND
  return nullptr;
}

template <typename T, int N>
const void* find_twice_kernel(bool norm) {
  return reinterpret_cast<const void*>(norm ? rope_heads_twice<T, N, true> : rope_heads_twice<T, N, false>);
}

template <typename T>
const void* find_kernel(const Layout& layout, int access, bool norm, bool tables_f32) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  if (layout.heads > 0) {
    if (access != 16) return nullptr;
    return tables_f32 ? find_heads_kernel<T, F32>(layout, norm) : find_heads_kernel<T, T>(layout, norm);
  }
  if (access == 16) return find_twice_kernel<T, 16 / kSize>(norm);
  if constexpr (kSize == 2) {
    if (access == 4) return find_twice_kernel<T, 2>(norm);
  }
  return find_twice_kernel<T, 1>(norm);
}

}  // namespace rope
