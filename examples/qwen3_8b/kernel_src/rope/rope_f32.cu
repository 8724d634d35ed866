// The kernels for f32.
#include "instantiate.cuh"

const void* rope::rope_kernel_f32(const Layout& layout, int access, bool norm, bool tables_f32) {
  return find_kernel<F32>(layout, access, norm, tables_f32);
}
