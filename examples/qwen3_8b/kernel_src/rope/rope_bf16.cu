// The kernels for bf16.
#include "instantiate.cuh"

const void* rope::rope_kernel_bf16(const Layout& layout, int access, bool norm, bool tables_f32) {
  return find_kernel<BF16>(layout, access, norm, tables_f32);
}
