// The kernels for f32.
#include "instantiate.cuh"

const void* rms_norm_kernel_f32(const Layout& layout, int pack_bytes, bool add) {
  return find_kernel<F32>(layout, pack_bytes, add);
}
