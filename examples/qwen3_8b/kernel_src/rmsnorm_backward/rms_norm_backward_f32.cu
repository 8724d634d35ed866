// The kernels for f32.
#include "instantiate.cuh"

const void* rmsnorm_backward::rms_norm_backward_kernel_f32(const Tuning& row, int access) {
  return find_kernel<F32>(row, access);
}

const void* rmsnorm_backward::weight_gradient_kernel_f32() { return reinterpret_cast<const void*>(weight_gradient<F32>); }
