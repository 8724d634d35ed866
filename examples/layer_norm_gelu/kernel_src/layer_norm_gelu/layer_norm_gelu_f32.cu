// The kernels for f32.
#include "instantiate.cuh"

Kernel layer_norm_gelu_kernel_f32(int64_t rows, int64_t width, bool whole, bool tanh) {
  return find<F32>(rows, width, whole, tanh);
}
