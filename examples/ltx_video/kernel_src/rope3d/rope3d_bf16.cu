// The kernels for bf16.
#include "instantiate.cuh"

const void* rope3d::rope3d_kernel_bf16(const Layout& layout, int access, bool norm) {
  return find_kernel<BF16>(layout, access, norm);
}
