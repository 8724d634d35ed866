// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "kernels.h"
#include "rms_norm.cuh"

namespace rmsnorm {

template <typename T, int N, int TPR, int NV, Access LOAD, int FIRST>
const void* rows_kernel(bool add) {
  return reinterpret_cast<const void*>(add ? rms_norm_rows<T, N, TPR, NV, true, LOAD, FIRST>
                                           : rms_norm_rows<T, N, TPR, NV, false, LOAD, FIRST>);
}

template <typename T, int N>
const void* find_kernel(const Layout& layout, bool add) {
  if (layout.packs == 0) {
    return reinterpret_cast<const void*>(add ? rms_norm_rows_twice<T, N, true> : rms_norm_rows_twice<T, N, false>);
  }
#define RMS_NORM_FIND(THREADS, PACKS, LOAD, FIRST)                                              \
  if (layout.threads == THREADS && layout.packs == PACKS && layout.stream == (LOAD == kStream)) \
    return rows_kernel<T, N, THREADS, PACKS, LOAD, FIRST>(add);
  if constexpr (N * sizeof(T) == 16) {
    RMS_NORM_LAYOUTS(RMS_NORM_FIND)
  } else {
    RMS_NORM_NARROW_LAYOUTS(RMS_NORM_FIND)
  }
#undef RMS_NORM_FIND
  return nullptr;
}

template <typename T>
const void* find_kernel(const Layout& layout, int access, bool add) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  if (access == 16) return find_kernel<T, 16 / kSize>(layout, add);
  if constexpr (kSize == 2) {
    if (access == 4) return find_kernel<T, 2>(layout, add);
  }
  return find_kernel<T, 1>(layout, add);
}

}  // namespace rmsnorm
