// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "adaln.cuh"
#include "adaln_shared.cuh"
#include "gate_residual.cuh"
#include "kernels.h"

template <typename T, int N, int TPR, int NV, Access LOAD, int FIRST, int LAST>
const void* rows_kernel(bool gated) {
  return reinterpret_cast<const void*>(gated ? adaln_rows<T, N, TPR, NV, true, LOAD, FIRST, LAST>
                                             : adaln_rows<T, N, TPR, NV, false, LOAD, FIRST, LAST>);
}

template <typename T, int N>
const void* wide_kernel(bool gated) {
  return reinterpret_cast<const void*>(gated ? adaln_wide_rows<T, N, true> : adaln_wide_rows<T, N, false>);
}

template <typename T>
const void* find_adaln(const Layout& layout, int access, bool gated) {
  constexpr int kMany = 16 / static_cast<int>(sizeof(T));
  if (layout.packs <= 0) return access == 16 ? wide_kernel<T, kMany>(gated) : wide_kernel<T, 1>(gated);
  if (access != 16) return nullptr;
#define ADALN_FIND(THREADS, PACKS, LOAD, FIRST, LAST)                                              \
  if (layout.threads == THREADS && layout.packs == PACKS && layout.stream == (LOAD == kStream)) \
    return rows_kernel<T, kMany, THREADS, PACKS, LOAD, FIRST, LAST>(gated);
  ADALN_LAYOUTS(ADALN_FIND)
#undef ADALN_FIND
  return nullptr;
}

template <typename T>
const void* find_adaln_shared(const SharedLayout& layout, bool gated) {
  constexpr int kMany = 16 / static_cast<int>(sizeof(T));
#define ADALN_FIND(THREADS, PACKS)                                                             \
  if (layout.threads == THREADS && layout.packs == PACKS)                                      \
    return gated ? reinterpret_cast<const void*>(adaln_shared_rows<T, kMany, THREADS, PACKS, true>) \
                 : reinterpret_cast<const void*>(adaln_shared_rows<T, kMany, THREADS, PACKS, false>);
  ADALN_SHARED_LAYOUTS(ADALN_FIND)
#undef ADALN_FIND
  return nullptr;
}

template <typename T>
const void* find_gate_residual(int packs, int access) {
  constexpr int kMany = 16 / static_cast<int>(sizeof(T));
  if (access != 16) return reinterpret_cast<const void*>(gate_residual_packs<T, 1, 1>);
  if (packs == 2) return reinterpret_cast<const void*>(gate_residual_packs<T, kMany, 2>);
  return reinterpret_cast<const void*>(gate_residual_packs<T, kMany, 1>);
}
