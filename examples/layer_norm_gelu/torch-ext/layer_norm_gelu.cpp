// The op of the family layer_norm_gelu.
#include "binding.h"

extern "C" {
int layer_norm_gelu_launch(void* out, const void* x, const void* weight, const void* bias, int64_t rows, int64_t width,
                           int64_t out_stride, int64_t x_stride, float eps, int tanh, int dtype, void* stream);
const char* layer_norm_gelu_error(int code);
}

namespace {

using binding::Call;
using binding::Input;
using binding::OptionalTensor;
using binding::Shape;
using binding::Tensor;

Tensor layer_norm_gelu(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                       bool tanh) {
  Call call("layer_norm_gelu", "x", x);
  const Input in = call.input(call.first(), x);
  const void *w = call.row("weight", weight, in.width), *b = call.row("bias", bias, in.width);
  call.begin();
  Tensor out = call.empty(Shape(call.first()));
  call.check(layer_norm_gelu_launch(out.data(), in.data, w, b, in.count, in.width, in.width, in.stride,
                                    static_cast<float>(eps), tanh, call.dtype(), call.stream()),
             layer_norm_gelu_error);
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("layer_norm_gelu(Tensor x, Tensor? weight, Tensor? bias, float eps, bool tanh) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("layer_norm_gelu", BINDING(layer_norm_gelu));
}

// For what it says of a tensor that is on no card.
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("layer_norm_gelu", BINDING(layer_norm_gelu));
}
