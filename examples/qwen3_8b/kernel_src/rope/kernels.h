// The kernels of each element type, one function a unit.
#pragma once
#include "tuning.h"

namespace rope {

// The kernel of a layout that is compiled for accesses of so many bytes (16, 4, or an element's); its one parameter is
// a RopeArguments. Null if there is none.
const void* rope_kernel_f32(const Layout& layout, int access, bool norm, bool tables_f32);
const void* rope_kernel_f16(const Layout& layout, int access, bool norm, bool tables_f32);
const void* rope_kernel_bf16(const Layout& layout, int access, bool norm, bool tables_f32);

}  // namespace rope
