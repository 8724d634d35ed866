// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "kernels.h"
#include "rms_norm_narrow.cuh"
#include "rms_norm_unaligned.cuh"

namespace rmsnorm {

template <typename T, int N, int TPR, int NV, Access LOAD, int FIRST>
const void* rows_kernel(bool add) {
  return reinterpret_cast<const void*>(add ? rms_norm_rows<T, N, TPR, NV, true, LOAD, FIRST>
                                           : rms_norm_rows<T, N, TPR, NV, false, LOAD, FIRST>);
}

template <typename T, int N>
const void* twice_kernel(bool add) {
  return reinterpret_cast<const void*>(add ? rms_norm_rows_twice<T, N, true> : rms_norm_rows_twice<T, N, false>);
}

template <typename T, int N, int TPR, int NV>
const void* elements_kernel(bool add) {
  return reinterpret_cast<const void*>(add ? rms_norm_elements<T, N, TPR, NV, true> : rms_norm_elements<T, N, TPR, NV, false>);
}

// The one of a kernel's two, alone and with residual add, if it is compiled.
#define RMS_NORM_OF(KERNEL, T, THREADS, PACKS, ALONE, WITH_ADD)                                             \
  if constexpr (WITH_ADD) {                                                                                 \
    if (add) return reinterpret_cast<const void*>(KERNEL<T, THREADS, PACKS, true>);                         \
  }                                                                                                         \
  if constexpr (ALONE) {                                                                                    \
    if (!add) return reinterpret_cast<const void*>(KERNEL<T, THREADS, PACKS, false>);                       \
  }

template <typename T>
const void* find_kernel(const Layout& layout, int access, bool add) {
  constexpr int kSize = static_cast<int>(sizeof(T)), kMany = 16 / kSize;
  if (layout.packs == 0) {
    if (access == 16) return twice_kernel<T, kMany>(add);
    if constexpr (kSize == 2) {
      if (access == 4) return twice_kernel<T, 2>(add);
    }
    return access == kSize ? twice_kernel<T, 1>(add) : nullptr;
  }
#define RMS_NORM_FIND(THREADS, PACKS, LOAD, FIRST)                                                             \
  if (access == 16 && layout.threads == THREADS && layout.packs == PACKS && layout.stream == (LOAD == kStream)) \
    return rows_kernel<T, kMany, THREADS, PACKS, LOAD, FIRST>(add);
  RMS_NORM_LAYOUTS(RMS_NORM_FIND)
#undef RMS_NORM_FIND
#define RMS_NORM_FIND(THREADS, ELEMENTS) \
  if (access == kSize && layout.threads == THREADS && layout.packs == ELEMENTS) return elements_kernel<T, 1, THREADS, ELEMENTS>(add);
  RMS_NORM_ELEMENT_LAYOUTS(RMS_NORM_FIND)
#undef RMS_NORM_FIND
#define RMS_NORM_FIND(THREADS, WORDS) \
  if (access == 4 && layout.threads == THREADS && layout.packs == WORDS) return elements_kernel<T, 4 / kSize, THREADS, WORDS>(add);
  RMS_NORM_WORD_LAYOUTS(RMS_NORM_FIND)
#undef RMS_NORM_FIND
#define RMS_NORM_FIND(THREADS, PACKS, ALONE, WITH_ADD)                               \
  if (access == kUnaligned && layout.threads == THREADS && layout.packs == PACKS) { \
    RMS_NORM_OF(rms_norm_narrow, T, THREADS, PACKS, ALONE, WITH_ADD)                 \
  }
  RMS_NORM_NARROW_LAYOUTS(RMS_NORM_FIND)
#undef RMS_NORM_FIND
#define RMS_NORM_FIND(THREADS, PACKS, ALONE, WITH_ADD)                               \
  if (access == kUnaligned && layout.threads == THREADS && layout.packs == PACKS) { \
    RMS_NORM_OF(rms_norm_unaligned, T, THREADS, PACKS, ALONE, WITH_ADD)              \
  }
  RMS_NORM_UNALIGNED_LAYOUTS(RMS_NORM_FIND)
#undef RMS_NORM_FIND
#undef RMS_NORM_OF
  return nullptr;
}

}  // namespace rmsnorm
