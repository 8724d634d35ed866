// The kernels for f32.
#include "instantiate.cuh"

const void* rope3d::rope3d_kernel_f32(const Layout& layout, int access, bool norm) {
  return find_kernel<F32>(layout, access, norm);
}
