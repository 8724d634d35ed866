// The kernels for f32.
#include "instantiate.cuh"

const void* geglu::gated_kernel_f32(const Layout& layout, int access, Activation activation, bool backward) {
  return find_kernel<F32>(layout, access, activation, backward);
}
