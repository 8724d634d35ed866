// The kernels for bf16.
#include "instantiate.cuh"

const void* elementwise::elementwise_kernel_bf16(int packs, int access, int tanh) { return find_kernel<BF16>(packs, access, tanh); }
