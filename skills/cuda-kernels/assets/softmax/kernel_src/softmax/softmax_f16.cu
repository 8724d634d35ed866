// The kernels for f16.
#include "instantiate.cuh"

const void* softmax::softmax_kernel_f16(Operation operation, const Layout& layout, bool wide) {
  return find_kernel<F16>(operation, layout, wide);
}
