// The kernels of each element type, one function a unit.
#pragma once
#include "activation.h"
#include "tuning.h"

namespace geglu {

// The kernel of a layout that is compiled for accesses of so many bytes (16, 4, or an element's); its one parameter is
// a GatedArguments. Null if there is none.
const void* gated_kernel_f32(const Layout& layout, int access, Activation activation, bool backward);
const void* gated_kernel_f16(const Layout& layout, int access, Activation activation, bool backward);
const void* gated_kernel_bf16(const Layout& layout, int access, Activation activation, bool backward);

}  // namespace geglu
