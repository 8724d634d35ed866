// The kernels for elements of 2 bytes, of whatever type: bits are moved, not numbers.
#include "instantiate.cuh"

const void* transpose::transpose_blocks_kernel_2(const Layout& layout) { return find_kernel<F16>(layout); }

const void* transpose::transpose_unaligned_kernel_2() { return reinterpret_cast<const void*>(transpose_unaligned<F16>); }
