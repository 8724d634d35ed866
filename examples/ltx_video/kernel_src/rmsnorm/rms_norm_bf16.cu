// The kernels for bf16.
#include "instantiate.cuh"

const void* rmsnorm::rms_norm_kernel_bf16(const Layout& layout, int access, bool add) {
  return find_kernel<BF16>(layout, access, add);
}
