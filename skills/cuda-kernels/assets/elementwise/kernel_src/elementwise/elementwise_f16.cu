// The kernels for f16.
#include "instantiate.cuh"

const void* elementwise::elementwise_kernel_f16(int packs, int access, int tanh) { return find_kernel<F16>(packs, access, tanh); }
