// The kernels for bf16.
#include "instantiate.cuh"

const void* attention::attention_kernel_bf16(int head_dim, int groups) {
  return find_kernel<BF16>(head_dim, groups);
}
