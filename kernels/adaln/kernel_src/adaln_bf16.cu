// The kernels for bf16.
#include "instantiate.cuh"

const void* adaln_kernel_bf16(const Layout& layout, int access, bool gated) {
  return find_adaln<BF16>(layout, access, gated);
}
const void* adaln_shared_kernel_bf16(const SharedLayout& layout, bool gated) {
  return find_adaln_shared<BF16>(layout, gated);
}
const void* gate_residual_kernel_bf16(int packs, int access) { return find_gate_residual<BF16>(packs, access); }
