// The instructions of sm_80 that a tensor-core kernel is made of: asynchronous copies, ldmatrix, mma.sync.
#pragma once
#include <cstdint>

#include "element.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "cp.async and mma.sync.m16n8k16 need sm_80 or later: leave 7.5 out of cuda-capabilities"
#endif

namespace attention {
using namespace common;

// The block's index, the thread's group (its y) and the lane, read again at each use: the compiler does not hold what
// follows from them in registers instead.
__device__ __forceinline__ int block_number() {
  int number;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
  return number;
}
__device__ __forceinline__ int group_of_thread() {
  int number;
  asm volatile("mov.u32 %0, %%tid.y;" : "=r"(number));
  return number;
}
__device__ __forceinline__ int lane_number() {
  int number;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(number));
  return number;
}

// __syncthreads of some of the block's threads, at a barrier of their own: 1 to 15.
__device__ __forceinline__ void sync_some(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Makes the value opaque, so that what follows from it is computed where it is used and not hoisted out of the loop.
__device__ __forceinline__ int rematerialize(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

// Shared memory as ldmatrix and cp.async name it: 32 bits.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes from device memory to shared memory, past L1 and past the registers; zeros instead where they are not
// `there`, and then `from` is not read.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

// Waits for all copies of this thread. What other threads copied is there after the __syncthreads that follows.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four matrices of 8 x 8 16-bit elements. Lane l gives the address of row l % 8 of matrix l / 8, and gets elements
// (l / 4, 2 * (l % 4)) and the one to its right of each: what mma wants of A, and of a B whose columns lie in the rows.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// The same, each matrix transposed: lane l gets (2 * (l % 4), l / 4) and the one below, of a B as it lies.
__device__ __forceinline__ void load_transposed(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// c += a b for a of 16 x 16, b of 16 x 8 and c of 16 x 8, c in fp32. With g = lane / 4 and t = 2 * (lane % 4), a
// thread has of a: (g, t), (g + 8, t), (g, t + 8), (g + 8, t + 8), each with the element to its right; of b: (t, g),
// (t + 8, g), each with the element below; of c: (g, t), (g, t + 1), (g + 8, t), (g + 8, t + 1).
template <typename T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void multiply_add<BF16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply_add<F16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace attention
