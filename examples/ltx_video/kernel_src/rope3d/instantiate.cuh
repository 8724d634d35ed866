// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "kernels.h"
#include "qk_norm_rope3d.cuh"
#include "rope3d.cuh"

namespace rope3d {

template <typename T, int E>
const void* find_kernel(const Layout& layout, bool norm) {
  constexpr bool kWide = E * sizeof(T) == 16;
#define ROPE3D_FIND(KERNEL, THREADS, PACKS, TENSORS, LOAD, FIRST, LAST)                  \
  if (layout.threads == THREADS && layout.packs == PACKS && layout.tensors == TENSORS && \
      layout.stream == (LOAD == kStream))                                                \
    return reinterpret_cast<const void*>(KERNEL<T, E, THREADS, PACKS, TENSORS, LOAD, FIRST, LAST>);
#define ROPE3D_FIND_ROTATION(...) ROPE3D_FIND(rope3d_tokens, __VA_ARGS__)
#define ROPE3D_FIND_NORM(...) ROPE3D_FIND(qk_norm_rope3d_tokens, __VA_ARGS__)
  if (norm && layout.packs == 0) return reinterpret_cast<const void*>(qk_norm_rope3d_twice<T, E>);
  if constexpr (kWide) {
    if (norm) {
      ROPE3D_NORM_LAYOUTS(ROPE3D_FIND_NORM)
    } else {
      ROPE3D_ROTATION_LAYOUTS(ROPE3D_FIND_ROTATION)
    }
  } else {
    if (norm) {
      ROPE3D_NARROW_LAYOUTS(ROPE3D_FIND_NORM)
    } else {
      ROPE3D_NARROW_LAYOUTS(ROPE3D_FIND_ROTATION)
    }
  }
#undef ROPE3D_FIND
#undef ROPE3D_FIND_ROTATION
#undef ROPE3D_FIND_NORM
  return nullptr;
}

template <typename T>
const void* find_kernel(const Layout& layout, int access, bool norm) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  if (access == 16) return find_kernel<T, 16 / kSize>(layout, norm);
  if constexpr (kSize == 2) {
    if (access == 4) return find_kernel<T, 2>(layout, norm);
  }
  return find_kernel<T, 1>(layout, norm);
}

}  // namespace rope3d
