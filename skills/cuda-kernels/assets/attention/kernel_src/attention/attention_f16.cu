// The kernels for f16.
#include "instantiate.cuh"

const void* attention::attention_kernel_f16(int head_dim, int groups) {
  return find_kernel<F16>(head_dim, groups);
}
