// The kernels for f16.
#include "instantiate.cuh"

const void* adaln::adaln_kernel_f16(const Layout& layout, int access, bool gated) {
  return find_adaln<F16>(layout, access, gated);
}
const void* adaln::adaln_affine_kernel_f16(const Layout& layout) { return find_adaln_affine<F16>(layout); }
const void* adaln::adaln_uniform_kernel_f16(const GroupLayout& layout, int access, Kind kind, bool tables) {
  return find_adaln_uniform<F16>(layout, access, kind, tables);
}
const void* adaln::adaln_cluster_kernel_f16(const ClusterLayout& layout, int access) {
  return find_adaln_cluster<F16>(layout, access);
}
const void* adaln::adaln_group_kernel_f16(const GroupLayout& layout, int access, bool gated) {
  return find_adaln_group<F16>(layout, access, gated);
}
const void* adaln::adaln_persistent_kernel_f16(const PersistentLayout& layout, bool gated, bool own) {
  return find_adaln_persistent<F16>(layout, gated, own);
}
const void* adaln::gate_residual_kernel_f16(int access, bool flat) { return find_gate_residual<F16>(access, flat); }
