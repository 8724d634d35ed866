// The kernels of each element type, one function a unit.
#pragma once
#include "tuning.h"

namespace rope3d {

// The kernel of a layout that is compiled for accesses of so many bytes (16, 4, or an element's), of the rotation alone
// or after a norm; its one parameter is a RotaryArguments. Null if there is none.
const void* rope3d_kernel_f32(const Layout& layout, int access, bool norm);
const void* rope3d_kernel_f16(const Layout& layout, int access, bool norm);
const void* rope3d_kernel_bf16(const Layout& layout, int access, bool norm);

// One block of up to 256 threads a position; its one parameter is a TableArguments.
const void* rope3d_table_kernel();

}  // namespace rope3d
