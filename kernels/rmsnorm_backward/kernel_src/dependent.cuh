// Generated from kernels/common/dependent.cuh.
// Programmatic dependent launch (sm_90): the blocks of a kernel come while the last ones of the kernel before it are still
// there, where an SM has room for them.
#pragma once
#include <cuda_runtime.h>

namespace common {

// By every thread of a kernel that launch_dependent launches, before its first access of memory and before it may end:
// until the kernel before has ended and what it wrote can be seen. Weights are no exception: a cast of them may be that
// kernel. Only then may the kernel behind come, so that it too finds all that is older than this one finished.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The attribute of such a kernel's launch, for code of sm_90 and above. Older code does not wait, so it must not come early,
// on a newer card neither.
inline cudaLaunchAttribute dependent() {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

// cudaLaunchKernel for such a kernel. `arch`: of the loaded code.
inline cudaError_t launch_dependent(const void* kernel, int arch, dim3 grid, dim3 block, void** parameters,
                                    size_t shared, cudaStream_t stream) {
  cudaLaunchAttribute attribute = dependent();
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = shared, config.stream = stream;
  config.attrs = &attribute, config.numAttrs = arch >= 90 ? 1 : 0;
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

}  // namespace common
