// The kernels for f32.
#include "instantiate.cuh"

const void* column_sum::column_sum_kernel_f32(int access) { return find_kernel<F32>(access); }

const void* column_sum::add_groups_kernel_f32() { return reinterpret_cast<const void*>(column_sum_groups<F32>); }
