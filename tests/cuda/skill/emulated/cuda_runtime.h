// The stand-in's CUDA, in which a kernel's threads run one after another, and what the skill's kernels need besides.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "../../../cheats/stand_in/cuda_runtime.h"

#define __host__
#undef __forceinline__
#define __forceinline__ inline
#undef __launch_bounds__
#define __launch_bounds__(...)

// cudaLaunchConfig_t has members of these names, which macros would replace.
#undef gridDim
#undef blockDim
#undef blockIdx
#undef threadIdx
inline thread_local dim3 &gridDim = stand_in::place.grid, &blockDim = stand_in::place.block, &blockIdx = stand_in::place.index,
                         &threadIdx = stand_in::place.thread;

using std::max;
using std::min;

inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }

// What other threads take part in, and what launcher.h and dependent.cuh name, is not emulated.
template <typename T>
T __shfl_down_sync(unsigned, T, int) {
  std::abort();
}
template <typename T>
T __shfl_sync(unsigned, T, int) {
  std::abort();
}
inline void __syncwarp() { std::abort(); }
inline void __trap() { std::abort(); }

using cudaError_t = int;
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
inline const char* cudaGetErrorString(int) { return ""; }

template <typename A>
void emulate(void (*kernel)(A), dim3 grid, dim3 block, A arguments) {
  const dim3 shape[] = {grid, block};
  void* pointers[] = {&arguments};
  stand_in::invoke(kernel, shape, pointers, nullptr);
}
