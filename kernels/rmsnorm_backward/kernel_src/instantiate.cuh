// Instantiates every layout of tuning.h for one element type.
#pragma once
#include "kernels.h"
#include "rms_norm_backward_blocks.cuh"
#include "rms_norm_backward_twice.cuh"
#include "rms_norm_backward_warps.cuh"
#include "weight_gradient.cuh"

namespace rmsnorm_backward {

// The kernel of a layout.
template <typename T, int N, int THREADS, int PACKS, int BLOCKS, bool SHARED, bool WHOLE, int FIRST, int LAST>
const void* kernel_of() {
  if constexpr (THREADS <= 32) {
    return reinterpret_cast<const void*>(rms_norm_backward_warps<T, N, THREADS, PACKS, BLOCKS, WHOLE, FIRST, LAST>);
  } else {
    return reinterpret_cast<const void*>(rms_norm_backward_blocks<T, N, THREADS, PACKS, BLOCKS, SHARED, WHOLE, FIRST, LAST>);
  }
}

template <typename T, int N, bool WHOLE>
const void* find_kernel(const Tuning& row) {
  if (row.resident == 0) return reinterpret_cast<const void*>(rms_norm_backward_twice<T, N>);
#define RMS_NORM_BACKWARD_FIND(THREADS, PACKS, BLOCKS, FIRST, LAST)         \
  if (!shares_rows(row) && row.threads == THREADS && row.resident == PACKS) \
    return kernel_of<T, N, THREADS, PACKS, BLOCKS, false, WHOLE, FIRST, LAST>();
#define RMS_NORM_BACKWARD_FIND_SHARED(THREADS, PACKS, BLOCKS, FIRST, LAST) \
  if (shares_rows(row) && row.threads == THREADS && row.resident == PACKS) \
    return kernel_of<T, N, THREADS, PACKS, BLOCKS, true, WHOLE, FIRST, LAST>();
  if constexpr (!WHOLE) {
    RMS_NORM_BACKWARD_UNALIGNED_LAYOUTS(RMS_NORM_BACKWARD_FIND)
    RMS_NORM_BACKWARD_UNALIGNED_SHARED_LAYOUTS(RMS_NORM_BACKWARD_FIND_SHARED)
  } else if constexpr (N * sizeof(T) == 16) {
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
const void* find_kernel(const Tuning& row, int access) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  if (access == kUnaligned) return find_kernel<T, 16 / kSize, false>(row);
  if (access == 16) return find_kernel<T, 16 / kSize, true>(row);
  if constexpr (kSize == 2) {
    if (access == 4) return find_kernel<T, 2, true>(row);
  }
  return find_kernel<T, 1, true>(row);
}

}  // namespace rmsnorm_backward
