// The kernels for f32.
#include "instantiate.cuh"

const void* elementwise::elementwise_kernel_f32(int packs, int access, int tanh) { return find_kernel<F32>(packs, access, tanh); }
