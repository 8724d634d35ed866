// The gradient of RMSNorm, a row at a time. With r = 1 / rms(x), xhat = x * r and g = dy * (weight + weight_offset):
//
//   dx = r * (g - xhat * mean(g * xhat))        dw = sum over the rows of dy * xhat
//
// The floor is memory: dy and x are read once and dx is written once, so a row stays in registers as in the forward, and
// r comes from x again rather than from the forward. dw is a sum over rows: each block keeps the one of its own rows in
// fp32 registers and writes it out at its end; weight_gradient adds the blocks' in a fixed order. No atomics: the same
// bits each time for the same number of blocks.
//
// Rows of up to a warp: rms_norm_backward_warps.cuh; of several: rms_norm_backward_blocks.cuh; wider than the registers of a
// block or a cluster: rms_norm_backward_twice.cuh. Here is what the first two have in common.
#pragma once
#include "arch.h"
#include "arguments.h"
#include "beside.cuh"
#include "dependent.cuh"
#include "gradient.cuh"
#include "pack.cuh"
#include "row_sums.cuh"
#include "tuning.h"

namespace rmsnorm_backward {
using namespace common;

// As many blocks of so many threads as are wanted on an SM, or as it holds.
template <int THREADS, int WANTED>
constexpr int kBlocksPerSm = WANTED * THREADS < kSmThreads ? WANTED : kSmThreads / THREADS;

// Prefetches packs of a row into L2.
template <typename T, int N>
__device__ __forceinline__ void prefetch_packs(const T* row, int first, int end) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(row + first * N), "r"((end - first) * 16) : "memory");
#endif
}

}  // namespace rmsnorm_backward
