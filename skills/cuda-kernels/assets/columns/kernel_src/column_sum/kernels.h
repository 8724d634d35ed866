// The kernels of each element type, two functions a unit.
#pragma once

namespace column_sum {

// The kernel that sums rows by accesses of so many bytes (16, 4, or an element's), and the one that adds the groups' sums.
// The one parameter of both is a ColumnSumArguments.
const void* column_sum_kernel_f32(int access);
const void* column_sum_kernel_f16(int access);
const void* column_sum_kernel_bf16(int access);

const void* add_groups_kernel_f32();
const void* add_groups_kernel_f16();
const void* add_groups_kernel_bf16();

}  // namespace column_sum
