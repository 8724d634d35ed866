// The kernels of each element type, one function a unit.
#pragma once

namespace elementwise {

// The kernel with so many packs a thread for accesses of so many bytes (16, 4, or an element's); its one parameter is an
// ElementwiseArguments. Null if there is none.
const void* elementwise_kernel_f32(int packs, int access, int tanh);
const void* elementwise_kernel_f16(int packs, int access, int tanh);
const void* elementwise_kernel_bf16(int packs, int access, int tanh);

}  // namespace elementwise
