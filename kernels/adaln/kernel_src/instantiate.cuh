// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "adaln.cuh"
#include "adaln_affine.cuh"
#include "adaln_cluster.cuh"
#include "adaln_group.cuh"
#include "adaln_persistent.cuh"
#include "adaln_phase.cuh"
#include "adaln_unaligned.cuh"
#include "adaln_uniform.cuh"
#include "gate_residual.cuh"
#include "kernels.h"

namespace adaln {

template <typename T, int N, int TPR, int NV>
const void* rows_kernel(bool gated) {
  return reinterpret_cast<const void*>(gated ? adaln_rows<T, N, TPR, NV, true>
                                             : adaln_rows<T, N, TPR, NV, false>);
}

template <typename T, int N>
const void* wide_kernel(bool gated) {
  return reinterpret_cast<const void*>(gated ? adaln_wide_rows<T, N, true> : adaln_wide_rows<T, N, false>);
}

template <typename T>
const void* find_adaln(const Layout& layout, int access, bool gated) {
  constexpr int kMany = 16 / static_cast<int>(sizeof(T));
  if (layout.packs <= 0) return access == 16 ? wide_kernel<T, kMany>(gated) : wide_kernel<T, 1>(gated);
#define ADALN_FIND(THREADS, PACKS) \
  if (layout.threads == THREADS && layout.packs == PACKS) return rows_kernel<T, kMany, THREADS, PACKS>(gated);
  if (access == 16) {
    ADALN_LAYOUTS(ADALN_FIND)
  }
#undef ADALN_FIND
#define ADALN_FIND(THREADS, PACKS)                                                        \
  if (layout.threads == THREADS && layout.packs == PACKS)                                 \
    return reinterpret_cast<const void*>(gated ? adaln_unaligned<T, THREADS, PACKS, true> \
                                               : adaln_unaligned<T, THREADS, PACKS, false>);
  if (access == kUnaligned) {
    ADALN_UNALIGNED_LAYOUTS(ADALN_FIND)
  }
#undef ADALN_FIND
#define ADALN_FIND(THREADS, PACKS) \
  if (layout.threads == THREADS && layout.packs == PACKS) return rows_kernel<T, 1, THREADS, PACKS>(gated);
  if (access == kElement) {
    ADALN_ELEMENT_LAYOUTS(ADALN_FIND)
  }
#undef ADALN_FIND
  return nullptr;
}

template <typename T, int TPR, int NV, int BLOCKS>
const void* affine_kernel() {
  if constexpr (TPR < 128) {
    return reinterpret_cast<const void*>(adaln_affine<T, TPR, NV, BLOCKS>);
  } else {
    return reinterpret_cast<const void*>(adaln_uniform<T, 16 / sizeof(T), false, false, TPR, NV, 1, TPR * NV < 2048 ? kEarly : kAhead, BLOCKS>);
  }
}

template <typename T>
const void* find_adaln_affine(const Layout& layout) {
#define ADALN_FIND(THREADS, PACKS, BLOCKS) \
  if (layout.threads == THREADS && layout.packs == PACKS) return affine_kernel<T, THREADS, PACKS, BLOCKS>();
  ADALN_AFFINE_LAYOUTS(ADALN_FIND)
#undef ADALN_FIND
  return nullptr;
}

template <typename T, int ACCESS, bool TABLES, bool GATED, int TPR, int NV, int ROWS, int FETCH, int BLOCKS>
const void* uniform_kernel() {
  // Of fp32 an element is a word.
  if constexpr (ACCESS == kElement && (sizeof(T) == 4 || !is_of_elements({TPR, NV, ROWS, static_cast<Fetch>(FETCH)}))) {
    return nullptr;
  } else {
    constexpr int N = ACCESS == kElement ? 1 : ACCESS / static_cast<int>(sizeof(T));
    return reinterpret_cast<const void*>(adaln_uniform<T, N, TABLES, GATED, TPR, NV, ROWS, FETCH, BLOCKS>);
  }
}

template <typename T, int ACCESS, Kind KIND, int TPR, int NV, int ROWS, int FETCH, int BLOCKS>
const void* kernel_of_kind(bool tables) {
  if constexpr (KIND != kGated) {
    return uniform_kernel<T, ACCESS, KIND == kTables, false, TPR, NV, ROWS, FETCH, BLOCKS>();
  } else {
    return tables ? uniform_kernel<T, ACCESS, true, true, TPR, NV, ROWS, FETCH, BLOCKS>()
                  : uniform_kernel<T, ACCESS, false, true, TPR, NV, ROWS, FETCH, BLOCKS>();
  }
}

template <typename T>
const void* find_adaln_uniform(const GroupLayout& layout, int access, Kind kind, bool tables) {
  const auto same = [&](const GroupLayout& compiled) {
    return layout.threads == compiled.threads && layout.packs == compiled.packs && layout.rows == compiled.rows &&
           layout.fetch == compiled.fetch;
  };
#define ADALN_FIND(KIND, THREADS, PACKS, ROWS, FETCH, BLOCKS) \
  if (kind == KIND && same({THREADS, PACKS, ROWS, FETCH}))    \
    return kernel_of_kind<T, 16, KIND, THREADS, PACKS, ROWS, FETCH, BLOCKS>(tables);
  if (access == 16) {
    ADALN_PACK_LAYOUTS(ADALN_FIND)
  }
#undef ADALN_FIND
#define ADALN_FIND(KIND, THREADS, PACKS, ROWS, FETCH, BLOCKS)                                                      \
  if (kind == KIND && same({THREADS, PACKS, ROWS, FETCH}))                                                         \
    return access == kWord ? kernel_of_kind<T, kWord, KIND, THREADS, PACKS, ROWS, FETCH, BLOCKS>(tables)            \
                           : kernel_of_kind<T, kElement, KIND, THREADS, PACKS, ROWS, FETCH, BLOCKS>(tables);
  if (access != 16) {
    ADALN_WORD_LAYOUTS(ADALN_FIND)
  }
#undef ADALN_FIND
  return nullptr;
}

template <typename T>
const void* find_adaln_cluster(const ClusterLayout& layout, int access) {
  constexpr int kMany = 16 / static_cast<int>(sizeof(T));
#define ADALN_FIND(ACCESS, BLOCKS, THREADS, PACKS)                                                                \
  if (access == ACCESS && layout.blocks == BLOCKS && layout.threads == THREADS && layout.packs == PACKS)           \
    return reinterpret_cast<const void*>(adaln_cluster<T, ACCESS == 16 ? kMany : 1, BLOCKS, THREADS, PACKS>);
  ADALN_CLUSTER_LAYOUTS(ADALN_FIND)
#undef ADALN_FIND
  return nullptr;
}

template <typename T, int ACCESS, int TPR, int NV, int ROWS, bool GATED, int BLOCKS, int FIRST>
const void* group_kernel() {
  if constexpr (ACCESS == kUnaligned) {
    return reinterpret_cast<const void*>(adaln_phases<T, TPR, NV, ROWS, GATED, BLOCKS, FIRST>);
  } else {
    return reinterpret_cast<const void*>(adaln_groups<T, TPR, NV, ROWS, GATED, BLOCKS, FIRST>);
  }
}

template <typename T>
const void* find_adaln_group(const GroupLayout& layout, int access, bool gated) {
#define ADALN_FIND(ACCESS, THREADS, PACKS, ROWS, GATED, BLOCKS, FIRST)                                                  \
  if (access == ACCESS && layout.threads == THREADS && layout.packs == PACKS && layout.rows == ROWS && gated == GATED) \
    return group_kernel<T, ACCESS, THREADS, PACKS, ROWS, GATED, BLOCKS, FIRST>();
  ADALN_GROUP_LAYOUTS(ADALN_FIND)
#undef ADALN_FIND
  return nullptr;
}

template <typename T>
const void* find_adaln_persistent(const PersistentLayout& layout, bool gated, bool own) {
#define ADALN_FIND(THREADS, PACKS, BLOCK, GATED)                                                                   \
  if (layout.threads == THREADS && layout.packs == PACKS && layout.block == BLOCK && gated == GATED)               \
    return reinterpret_cast<const void*>(own ? adaln_persistent<T, THREADS, PACKS, GATED, true, BLOCK>             \
                                             : adaln_persistent<T, THREADS, PACKS, GATED, false, BLOCK>);
  ADALN_PERSISTENT_LAYOUTS(ADALN_FIND)
#undef ADALN_FIND
  return nullptr;
}

template <typename T>
const void* find_gate_residual(int access, bool flat) {
  constexpr int kMany = 16 / static_cast<int>(sizeof(T));
  if (access == kElement && flat) return reinterpret_cast<const void*>(gate_residual_elements<T>);
  if (access == kElement) return reinterpret_cast<const void*>(gate_residual_packs<T, 1, false>);
  if (access == kWord) {
    constexpr int N = kWord / static_cast<int>(sizeof(T));
    return reinterpret_cast<const void*>(flat ? gate_residual_packs<T, N, true> : gate_residual_packs<T, N, false>);
  }
  return reinterpret_cast<const void*>(flat ? gate_residual_packs<T, kMany, true>
                                            : gate_residual_packs<T, kMany, false>);
}

}  // namespace adaln
