// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "kernels.h"
#include "rms_norm_backward.cuh"
#include "weight_gradient.cuh"

namespace rmsnorm_backward {

template <typename T, int N>
const void* find_kernel(const Tuning& row) {
  if (row.resident == 0) return reinterpret_cast<const void*>(rms_norm_backward_rows_twice<T, N>);
#define RMS_NORM_BACKWARD_FIND(THREADS, PACKS, BLOCKS, FIRST, LAST)         \
  if (!shares_rows(row) && row.threads == THREADS && row.resident == PACKS) \
    return reinterpret_cast<const void*>(rms_norm_backward_rows<T, N, THREADS, PACKS, BLOCKS, false, true, FIRST, LAST>);
#define RMS_NORM_BACKWARD_FIND_SHARED(THREADS, PACKS, BLOCKS, FIRST, LAST) \
  if (shares_rows(row) && row.threads == THREADS && row.resident == PACKS) \
    return reinterpret_cast<const void*>(rms_norm_backward_rows<T, N, THREADS, PACKS, BLOCKS, true, true, FIRST, LAST>);
  if constexpr (N * sizeof(T) == 16) {
    RMS_NORM_BACKWARD_LAYOUTS(RMS_NORM_BACKWARD_FIND)
    RMS_NORM_BACKWARD_SHARED_LAYOUTS(RMS_NORM_BACKWARD_FIND_SHARED)
  } else {
    RMS_NORM_BACKWARD_NARROW_LAYOUTS(RMS_NORM_BACKWARD_FIND)
  }
#undef RMS_NORM_BACKWARD_FIND
#undef RMS_NORM_BACKWARD_FIND_SHARED
  return nullptr;
}

template <typename T>
const void* find_unaligned_kernel(const Tuning& row) {
  constexpr int N = 16 / static_cast<int>(sizeof(T));
#define RMS_NORM_BACKWARD_FIND(THREADS, PACKS, BLOCKS, FIRST, LAST)         \
  if (!shares_rows(row) && row.threads == THREADS && row.resident == PACKS) \
    return reinterpret_cast<const void*>(rms_norm_backward_rows<T, N, THREADS, PACKS, BLOCKS, false, false, FIRST, LAST>);
#define RMS_NORM_BACKWARD_FIND_SHARED(THREADS, PACKS, BLOCKS, FIRST, LAST) \
  if (shares_rows(row) && row.threads == THREADS && row.resident == PACKS) \
    return reinterpret_cast<const void*>(rms_norm_backward_rows<T, N, THREADS, PACKS, BLOCKS, true, false, FIRST, LAST>);
  RMS_NORM_BACKWARD_UNALIGNED_LAYOUTS(RMS_NORM_BACKWARD_FIND)
  RMS_NORM_BACKWARD_UNALIGNED_SHARED_LAYOUTS(RMS_NORM_BACKWARD_FIND_SHARED)
#undef RMS_NORM_BACKWARD_FIND
#undef RMS_NORM_BACKWARD_FIND_SHARED
  return nullptr;
}

template <typename T>
const void* find_kernel(const Tuning& row, int access) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  if (access == kUnaligned) return find_unaligned_kernel<T>(row);
  if (access == 16) return find_kernel<T, 16 / kSize>(row);
  if constexpr (kSize == 2) {
    if (access == 4) return find_kernel<T, 2>(row);
  }
  return find_kernel<T, 1>(row);
}

}  // namespace rmsnorm_backward
