// The kernels of each element type, two functions a unit.
#pragma once
#include "tuning.h"

namespace rmsnorm_backward {

// The kernel of a row of the table that is compiled for accesses of so many bytes (16, 4, or an element's) or kUnaligned;
// its one parameter is an Arguments. Null if there is none.
const void* rms_norm_backward_kernel_f32(const Tuning& row, int access);
const void* rms_norm_backward_kernel_f16(const Tuning& row, int access);
const void* rms_norm_backward_kernel_bf16(const Tuning& row, int access);

// The kernel that adds the blocks' sums; its one parameter is a WeightGradientArguments.
const void* weight_gradient_kernel_f32();
const void* weight_gradient_kernel_f16();
const void* weight_gradient_kernel_bf16();

}  // namespace rmsnorm_backward
