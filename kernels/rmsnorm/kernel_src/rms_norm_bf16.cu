// The kernels for bf16.
#include "instantiate.cuh"

const void* rms_norm_kernel_bf16(const Layout& layout, int pack_bytes, bool add) {
  return find_kernel<BF16>(layout, pack_bytes, add);
}
