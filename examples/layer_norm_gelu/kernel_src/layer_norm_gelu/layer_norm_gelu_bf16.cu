// The kernels for bf16.
#include "instantiate.cuh"

Kernel layer_norm_gelu_kernel_bf16(int64_t rows, int64_t width, bool whole, bool tanh) {
  return find<BF16>(rows, width, whole, tanh);
}
