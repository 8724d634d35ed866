// The kernels for f16.
#include "instantiate.cuh"

const void* rmsnorm_backward::rms_norm_backward_kernel_f16(const Tuning& row, int access) {
  return find_kernel<F16>(row, access);
}

const void* rmsnorm_backward::weight_gradient_kernel_f16() { return reinterpret_cast<const void*>(weight_gradient<F16>); }
