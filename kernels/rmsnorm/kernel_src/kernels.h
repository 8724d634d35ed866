// The kernels of each element type, one function a unit.
#pragma once
#include "tuning.h"

// The kernel of a compiled layout, for cudaLaunchKernelExC with one RowArguments; null if there is none.
// pack_bytes: 16, or 4, or the size of an element.
const void* rms_norm_kernel_f32(const Layout& layout, int pack_bytes, bool add);
const void* rms_norm_kernel_f16(const Layout& layout, int pack_bytes, bool add);
const void* rms_norm_kernel_bf16(const Layout& layout, int pack_bytes, bool add);
