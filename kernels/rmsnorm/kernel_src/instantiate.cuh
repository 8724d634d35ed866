// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "kernels.h"
#include "rms_norm.cuh"

template <typename T, int N, int TPR, int NV, bool CLUSTER, int FIRST, int LAST>
const void* rows_kernel(bool add) {
  // Up to four packs of weight fit beside the row; then they are fetched before the reduction, to hide their latency.
  constexpr bool kEarly = NV <= 4;
  const auto plain = rms_norm_rows<T, N, TPR, NV, false, CLUSTER, kStream, kAsked, kEarly, FIRST, LAST>;
  const auto with_add = rms_norm_rows<T, N, TPR, NV, true, CLUSTER, kStream, kAsked, kEarly, FIRST, LAST>;
  return reinterpret_cast<const void*>(add ? with_add : plain);
}

template <typename T, int N>
const void* wide_kernel(bool add) {
  return reinterpret_cast<const void*>(add ? rms_norm_wide_rows<T, N, true> : rms_norm_wide_rows<T, N, false>);
}

template <typename T, int N>
const void* find_kernel(const Layout& layout, bool add) {
  if (layout.packs == 0) return wide_kernel<T, N>(add);
#define RMS_NORM_FIND(THREADS, PACKS, CLUSTERED, FIRST, LAST)                                    \
  if (layout.threads == THREADS && layout.packs == PACKS && (layout.blocks > 1) == CLUSTERED) \
    return rows_kernel<T, N, THREADS, PACKS, CLUSTERED, FIRST, LAST>(add);
  if constexpr (N * sizeof(T) == 16) {
    RMS_NORM_LAYOUTS(RMS_NORM_FIND)
  } else {
    RMS_NORM_NARROW_LAYOUTS(RMS_NORM_FIND)
  }
#undef RMS_NORM_FIND
  return nullptr;
}

template <typename T>
const void* find_kernel(const Layout& layout, int pack_bytes, bool add) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  if (pack_bytes == 16) return find_kernel<T, 16 / kSize>(layout, add);
  if constexpr (kSize == 2) {
    if (pack_bytes == 4) return find_kernel<T, 2>(layout, add);
  }
  return find_kernel<T, 1>(layout, add);
}
