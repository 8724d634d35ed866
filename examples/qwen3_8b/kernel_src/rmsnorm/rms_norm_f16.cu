// The kernels for f16.
#include "instantiate.cuh"

const void* rmsnorm::rms_norm_kernel_f16(const Layout& layout, int access, bool add) {
  return find_kernel<F16>(layout, access, add);
}
