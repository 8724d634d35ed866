// The kernels for f16.
#include "instantiate.cuh"

Kernel layer_norm_gelu_kernel_f16(int64_t rows, int64_t width, bool whole, bool tanh) {
  return find<F16>(rows, width, whole, tanh);
}
