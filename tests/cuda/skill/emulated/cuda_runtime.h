// As much of CUDA as kernels need whose threads do not talk to each other: `emulate` runs a kernel's threads one after another.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static

using std::max;
using std::min;

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
inline dim3 gridDim, blockDim, blockIdx, threadIdx;

inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

// Of other threads: not emulated.
template <typename T>
T __shfl_xor_sync(unsigned, T, int) {
  std::abort();
}
template <typename T>
T __shfl_down_sync(unsigned, T, int) {
  std::abort();
}
template <typename T>
T __shfl_sync(unsigned, T, int) {
  std::abort();
}
inline void __syncthreads() { std::abort(); }
inline void __syncwarp() { std::abort(); }
inline void __trap() { std::abort(); }

// What launcher.h and dependent.cuh name and these launchers do not call.
using cudaError_t = int;
using cudaStream_t = void*;
constexpr int cudaSuccess = 0, cudaLaunchAttributeClusterDimension = 1, cudaLaunchAttributeProgrammaticStreamSerialization = 2;
struct cudaLaunchAttribute {
  int id;
  struct {
    int programmaticStreamSerializationAllowed;
    dim3 clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
struct cudaFuncAttributes {
  int binaryVersion, ptxVersion;
};
inline int cudaLaunchKernelExC(...) { std::abort(); }
inline int cudaOccupancyMaxActiveClusters(...) { std::abort(); }
inline int cudaFuncGetAttributes(...) { std::abort(); }
inline int cudaGetDevice(int*) { std::abort(); }
inline int cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(int) { return ""; }

template <typename F>
void each(dim3 size, dim3& index, F f) {
  for (index.z = 0; index.z < size.z; ++index.z)
    for (index.y = 0; index.y < size.y; ++index.y)
      for (index.x = 0; index.x < size.x; ++index.x) f();
}

template <typename A>
void emulate(void (*kernel)(A), dim3 grid, dim3 block, const A& arguments) {
  gridDim = grid, blockDim = block;
  each(grid, blockIdx, [&] { each(block, threadIdx, [&] { kernel(arguments); }); });
}
