// The kernels for elements of 4 bytes, of whatever type: bits are moved, not numbers.
#include "instantiate.cuh"

const void* transpose::transpose_blocks_kernel_4(const Layout& layout) { return find_kernel<F32>(layout); }

const void* transpose::transpose_unaligned_kernel_4() { return reinterpret_cast<const void*>(transpose_unaligned<F32>); }
