// The kernels of each element type, one unit a type.
#pragma once
#include "tuning.h"

namespace adaln {

// The kernel of a layout that is compiled for such accesses (16, kUnaligned, kElement); its one parameter
// is an Arguments. Null if there is none.
const void* adaln_kernel_f32(const Layout& layout, int access, bool gated);
const void* adaln_kernel_f16(const Layout& layout, int access, bool gated);
const void* adaln_kernel_bf16(const Layout& layout, int access, bool gated);

// The same of a layout for rows with a scale and a shift alone.
const void* adaln_affine_kernel_f32(const Layout& layout);
const void* adaln_affine_kernel_f16(const Layout& layout);
const void* adaln_affine_kernel_bf16(const Layout& layout);

// The same of a layout for rows of that kind, in such accesses (16, kWord, kElement).
const void* adaln_uniform_kernel_f32(const GroupLayout& layout, int access, Kind kind, bool tables);
const void* adaln_uniform_kernel_f16(const GroupLayout& layout, int access, Kind kind, bool tables);
const void* adaln_uniform_kernel_bf16(const GroupLayout& layout, int access, Kind kind, bool tables);

// The same of a layout for few wide rows, in such accesses (16, kElement).
const void* adaln_cluster_kernel_f32(const ClusterLayout& layout, int access);
const void* adaln_cluster_kernel_f16(const ClusterLayout& layout, int access);
const void* adaln_cluster_kernel_bf16(const ClusterLayout& layout, int access);

// The same of a layout for rows that have their modulation in common.
const void* adaln_group_kernel_f32(const GroupLayout& layout, int access, bool gated);
const void* adaln_group_kernel_f16(const GroupLayout& layout, int access, bool gated);
const void* adaln_group_kernel_bf16(const GroupLayout& layout, int access, bool gated);

// The same of a layout of persistent blocks, for rows with a modulation each or in common.
const void* adaln_persistent_kernel_f32(const PersistentLayout& layout, bool gated, bool own);
const void* adaln_persistent_kernel_f16(const PersistentLayout& layout, bool gated, bool own);
const void* adaln_persistent_kernel_bf16(const PersistentLayout& layout, bool gated, bool own);

// The same of a gated residual without a norm, by the packs that a thread has; flat: rows lie side by side.
const void* gate_residual_kernel_f32(int access, bool flat);
const void* gate_residual_kernel_f16(int access, bool flat);
const void* gate_residual_kernel_bf16(int access, bool flat);

}  // namespace adaln
