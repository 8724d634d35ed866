// Copies from global to shared memory that a thread does not wait for until it needs them (sm_80).
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "pack.cuh"

namespace common {

// 16 bytes, which are there after the wait for all but the LATER latest commits behind them. The copies allocate lines in L1: past
// it, a warp's copy that begins between two sectors of 32 bytes would have L2 asked for those at its ends twice. Code before sm_80
// waits at once.
__device__ __forceinline__ void copy_16(uint4& to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(&to))), "l"(from) : "memory");
#else
  to = *static_cast<const uint4*>(from);
#endif
}
__device__ __forceinline__ void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LATER>
__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
#endif
}

// The pack at such a place.
template <typename T>
__device__ __forceinline__ Pack<T, 16 / sizeof(T)> pack_at(const uint4& place) {
  const uint4 w = place;
  return {{w.x, w.y, w.z, w.w}};
}

}  // namespace common
