// N elements of a row in one access, of 16 bytes where the row allows it, and rows as the solutions take them.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kThreads = 256;

__device__ inline float to_float(float v) { return v; }
__device__ inline float to_float(__half v) { return __half2float(v); }
__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline void from_float(float& to, float v) { to = v; }
__device__ inline void from_float(__half& to, float v) { to = __float2half_rn(v); }
__device__ inline void from_float(__nv_bfloat16& to, float v) { to = __float2bfloat16_rn(v); }

template <typename T>
constexpr int kWide = 16 / sizeof(T);

template <typename T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T v[N];
};

template <int N, typename T>
__device__ inline Pack<T, N> load(const T* row, int64_t i) {
  return *reinterpret_cast<const Pack<T, N>*>(row + i);
}
template <int N, typename T>
__device__ inline void store(T* row, int64_t i, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(row + i) = pack;
}

// Whether rows that begin at `data`, `stride` elements apart, can be read 16 bytes at a time.
template <typename T>
bool is_wide(const void* data, int64_t stride) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % kWide<T> == 0;
}

// What `op` makes of the values of all threads; each gets it. `scratch` may be written again behind the next barrier.
template <typename V, typename F>
__device__ inline V reduce(V v, V (&scratch)[kThreads / 32], F op) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  v = scratch[0];
#pragma unroll
  for (int w = 1; w < kThreads / 32; ++w) v = op(v, scratch[w]);
  return v;
}
