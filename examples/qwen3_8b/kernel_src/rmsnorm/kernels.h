// The kernels of each element type, one function a unit.
#pragma once
#include "tuning.h"

namespace rmsnorm {

// The kernel of a layout that is compiled for accesses of so many bytes (16, 4, an element's, or kUnaligned); its one
// parameter is a RowArguments. Null if there is none.
const void* rms_norm_kernel_f32(const Layout& layout, int access, bool add);
const void* rms_norm_kernel_f16(const Layout& layout, int access, bool add);
const void* rms_norm_kernel_bf16(const Layout& layout, int access, bool add);

}  // namespace rmsnorm
