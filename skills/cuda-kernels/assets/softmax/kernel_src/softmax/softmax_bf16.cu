// The kernels for bf16.
#include "instantiate.cuh"

const void* softmax::softmax_kernel_bf16(Operation operation, const Layout& layout, bool wide) {
  return find_kernel<BF16>(operation, layout, wide);
}
