// The kernels for bf16.
#include "instantiate.cuh"

const void* geglu::gated_kernel_bf16(const Layout& layout, int access, Activation activation, bool backward) {
  return find_kernel<BF16>(layout, access, activation, backward);
}
