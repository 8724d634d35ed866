// The kernels for bf16.
#include "instantiate.cuh"

const void* adaln::adaln_kernel_bf16(const Layout& layout, int access, bool gated) {
  return find_adaln<BF16>(layout, access, gated);
}
const void* adaln::adaln_affine_kernel_bf16(const Layout& layout) { return find_adaln_affine<BF16>(layout); }
const void* adaln::adaln_uniform_kernel_bf16(const GroupLayout& layout, int access, Kind kind, bool tables) {
  return find_adaln_uniform<BF16>(layout, access, kind, tables);
}
const void* adaln::adaln_cluster_kernel_bf16(const ClusterLayout& layout, int access) {
  return find_adaln_cluster<BF16>(layout, access);
}
const void* adaln::adaln_group_kernel_bf16(const GroupLayout& layout, int access, bool gated) {
  return find_adaln_group<BF16>(layout, access, gated);
}
const void* adaln::adaln_persistent_kernel_bf16(const PersistentLayout& layout, bool gated, bool own) {
  return find_adaln_persistent<BF16>(layout, gated, own);
}
const void* adaln::gate_residual_kernel_bf16(int access, bool flat) { return find_gate_residual<BF16>(access, flat); }
