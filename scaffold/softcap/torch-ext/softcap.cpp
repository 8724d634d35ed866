// The ops of the family softcap: softcap, and the same in place.
#include "binding.h"

extern "C" {
int softcap_launch(void* out, const void* x, int64_t rows, int64_t width, int64_t out_stride, int64_t x_stride,
                   float cap, int dtype, void* stream);
const char* softcap_error(int code);
}

namespace {

using binding::Call;
using binding::Input;
using binding::Rows;
using binding::Shape;
using binding::Tensor;

Tensor softcap(const Tensor& x, double cap) {
  Call call("softcap", "x", x);
  const Input in = call.input(call.first(), x);
  call.begin();
  Tensor out = call.empty(Shape(call.first()));
  call.check(softcap_launch(out.data(), in.data, in.count, in.width, in.width, in.stride, static_cast<float>(cap),
                            call.dtype(), call.stream()),
             softcap_error);
  return out;
}

void softcap_in_place(const Tensor& x, double cap) {
  Call call("softcap_", "x", x);
  const Rows in = call.rows(call.first());
  call.begin();
  call.check(softcap_launch(in.data, in.data, in.count, in.width, in.stride, in.stride, static_cast<float>(cap),
                            call.dtype(), call.stream()),
             softcap_error);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("softcap(Tensor x, float cap) -> Tensor");
  ops.def("softcap_(Tensor(a!) x, float cap) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("softcap", BINDING(softcap));
  ops.impl("softcap_", BINDING(softcap_in_place));
}

// For what they say of a tensor that is on no card.
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("softcap", BINDING(softcap));
  ops.impl("softcap_", BINDING(softcap_in_place));
}
