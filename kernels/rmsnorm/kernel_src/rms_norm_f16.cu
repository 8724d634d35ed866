// The kernels for f16.
#include "instantiate.cuh"

const void* rms_norm_kernel_f16(const Layout& layout, int pack_bytes, bool add) {
  return find_kernel<F16>(layout, pack_bytes, add);
}
