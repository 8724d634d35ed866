// The kernels for bf16.
#include "instantiate.cuh"

const void* column_sum::column_sum_kernel_bf16(int access) { return find_kernel<BF16>(access); }

const void* column_sum::add_groups_kernel_bf16() { return reinterpret_cast<const void*>(column_sum_groups<BF16>); }
