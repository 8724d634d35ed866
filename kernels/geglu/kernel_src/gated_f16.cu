// The kernels for f16.
#include "instantiate.cuh"

const void* geglu::gated_kernel_f16(const Layout& layout, int access, Activation activation, bool backward) {
  return find_kernel<F16>(layout, access, activation, backward);
}
