// The kernels for bf16.
#include "instantiate.cuh"

const void* rmsnorm_backward::rms_norm_backward_kernel_bf16(const Tuning& row, int access) {
  return find_kernel<BF16>(row, access);
}

const void* rmsnorm_backward::weight_gradient_kernel_bf16() { return reinterpret_cast<const void*>(weight_gradient<BF16>); }
