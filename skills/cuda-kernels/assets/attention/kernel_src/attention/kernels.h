// The kernels of each element type, one function a unit.
#pragma once

namespace attention {

// The kernel for heads of that many elements; its one parameter is an AttentionArguments. Null if there is none.
const void* attention_kernel_bf16(int head_dim);
const void* attention_kernel_f16(int head_dim);

}  // namespace attention
