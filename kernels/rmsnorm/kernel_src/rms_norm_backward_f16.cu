// The backward's kernels for f16.
#include "backward_instantiate.cuh"

const void* rms_norm_backward_kernel_f16(const BackwardTuning& row, int access) {
  return find_backward_kernel<F16>(row, access);
}

const void* weight_gradient_kernel_f16() { return reinterpret_cast<const void*>(weight_gradient<F16>); }
