// The kernels of each element type, one function a unit.
#pragma once

namespace attention {

// The kernel for heads of that many elements and that many groups of warps a block, 1 or 2; its one parameter is an
// AttentionArguments. Null if there is none.
const void* attention_kernel_bf16(int head_dim, int groups);
const void* attention_kernel_f16(int head_dim, int groups);

}  // namespace attention
