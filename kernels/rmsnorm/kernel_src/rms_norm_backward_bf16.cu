// The backward's kernels for bf16.
#include "backward_instantiate.cuh"

const void* rms_norm_backward_kernel_bf16(const BackwardTuning& row, int access) {
  return find_backward_kernel<BF16>(row, access);
}

const void* weight_gradient_kernel_bf16() { return reinterpret_cast<const void*>(weight_gradient<BF16>); }
