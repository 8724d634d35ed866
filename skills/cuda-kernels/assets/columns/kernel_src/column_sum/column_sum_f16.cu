// The kernels for f16.
#include "instantiate.cuh"

const void* column_sum::column_sum_kernel_f16(int access) { return find_kernel<F16>(access); }

const void* column_sum::add_groups_kernel_f16() { return reinterpret_cast<const void*>(column_sum_groups<F16>); }
