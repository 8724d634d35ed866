// The kernels for f16.
#include "instantiate.cuh"

const void* rope::rope_kernel_f16(const Layout& layout, int access, bool norm, bool tables_f32) {
  return find_kernel<F16>(layout, access, norm, tables_f32);
}
