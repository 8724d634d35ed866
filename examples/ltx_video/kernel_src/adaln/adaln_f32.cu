// The kernels for f32.
#include "instantiate.cuh"

const void* adaln::adaln_kernel_f32(const Layout& layout, int access, bool gated) {
  return find_adaln<F32>(layout, access, gated);
}
const void* adaln::adaln_affine_kernel_f32(const Layout& layout) { return find_adaln_affine<F32>(layout); }
const void* adaln::adaln_uniform_kernel_f32(const GroupLayout& layout, int access, Kind kind, bool tables) {
  return find_adaln_uniform<F32>(layout, access, kind, tables);
}
const void* adaln::adaln_cluster_kernel_f32(const ClusterLayout& layout, int access) {
  return find_adaln_cluster<F32>(layout, access);
}
const void* adaln::adaln_group_kernel_f32(const GroupLayout& layout, int access, bool gated) {
  return find_adaln_group<F32>(layout, access, gated);
}
const void* adaln::adaln_persistent_kernel_f32(const PersistentLayout& layout, bool gated, bool own) {
  return find_adaln_persistent<F32>(layout, gated, own);
}
const void* adaln::gate_residual_kernel_f32(int access, bool flat) { return find_gate_residual<F32>(access, flat); }
