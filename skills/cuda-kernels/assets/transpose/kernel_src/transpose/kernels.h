// The kernels of each element size, two functions a unit.
#pragma once
#include "tuning.h"

namespace transpose {

// The kernel of a layout, for addresses, strides and sizes that are whole 16-byte packs; null if it is not compiled. Its
// one parameter is a TransposeArguments.
const void* transpose_blocks_kernel_2(const Layout& layout);
const void* transpose_blocks_kernel_4(const Layout& layout);

// The kernel for all others.
const void* transpose_unaligned_kernel_2();
const void* transpose_unaligned_kernel_4();

}  // namespace transpose
