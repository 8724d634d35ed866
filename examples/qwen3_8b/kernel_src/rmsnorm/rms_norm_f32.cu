// The kernels for f32.
#include "instantiate.cuh"

const void* rmsnorm::rms_norm_kernel_f32(const Layout& layout, int access, bool add) {
  return find_kernel<F32>(layout, access, add);
}
