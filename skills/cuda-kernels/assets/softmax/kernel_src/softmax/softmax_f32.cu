// The kernels for f32.
#include "instantiate.cuh"

const void* softmax::softmax_kernel_f32(Operation operation, const Layout& layout, bool wide) {
  return find_kernel<F32>(operation, layout, wide);
}
