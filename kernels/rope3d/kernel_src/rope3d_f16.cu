// The kernels for f16.
#include "instantiate.cuh"

const void* rope3d::rope3d_kernel_f16(const Layout& layout, int access, bool norm) {
  return find_kernel<F16>(layout, access, norm);
}
