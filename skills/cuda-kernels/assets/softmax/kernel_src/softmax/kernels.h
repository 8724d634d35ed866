// The kernels of each element type, one function a unit and operation.
#pragma once
#include "tuning.h"

namespace softmax {

// The kernel of a layout that is compiled for accesses of 16 bytes or (`wide` false) of one element. The one parameter
// is a SoftmaxArguments, or a CrossEntropyArguments. Null if there is none.
const void* softmax_kernel_f32(Operation operation, const Layout& layout, bool wide);
const void* softmax_kernel_f16(Operation operation, const Layout& layout, bool wide);
const void* softmax_kernel_bf16(Operation operation, const Layout& layout, bool wide);

}  // namespace softmax
