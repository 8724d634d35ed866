// [of geglu swiglu swiglu_packed]
// The ops of the family geglu: a value times an activated gate, side by side or in two tensors, and the gradients.
// [else]
// Ops of the family geglu: a value times an activated gate, and the gradient.
// [end of]
#include "binding.h"

extern "C" {
int geglu_launch(void* out, const void* x, int64_t rows, int64_t inner, int64_t out_stride, int64_t x_stride,
                 int gate_first, int tanh, int dtype, void* stream);
int geglu_backward_launch(void* dx, const void* dy, const void* x, int64_t rows, int64_t inner, int64_t dx_stride,
                          int64_t dy_stride, int64_t x_stride, int gate_first, int tanh, int dtype, void* stream);
int swiglu_packed_launch(void* out, const void* x, int64_t rows, int64_t inner, int64_t out_stride, int64_t x_stride,
                         int gate_first, int dtype, void* stream);
int swiglu_launch(void* out, const void* gate, const void* up, int64_t rows, int64_t width, int64_t out_stride,
                  int64_t gate_stride, int64_t up_stride, int dtype, void* stream);
int swiglu_backward_launch(void* d_gate, void* d_up, const void* dy, const void* gate, const void* up, int64_t rows,
                           int64_t width, int64_t d_gate_stride, int64_t d_up_stride, int64_t dy_stride,
                           int64_t gate_stride, int64_t up_stride, int dtype, void* stream);
const char* geglu_error(int code);
}

namespace {

using binding::Array;
using binding::Call;
using binding::Input;
using binding::Shape;
using binding::Tensor;

// Half of the last dimension of a tensor that holds value and gate side by side.
int64_t inner_of(const Call& call, const Array& x) {
  if (x.width() % 2 != 0) call.fail(x.name, "'s last dimension holds two halves, so it must be even, but is ", x);
  return x.width() / 2;
}

// The gradient of an output of `width` elements a row must have x's other dimensions.
void check_gradient(const Call& call, const Array& dy, const Array& x, int64_t width) {
  bool fits = dy.dims == x.dims && dy.width() == width;
  for (int64_t i = 0; fits && i < x.dims - 1; ++i) fits = dy.sizes[i] == x.sizes[i];
  if (!fits) call.fail(dy.name, " must have the output's shape, with a last dimension of ", width, ", but is ", dy);
}

// The half that begins a row, or the other one.
void* half(void* x, int64_t inner, const Call& call, bool second) {
  return static_cast<char*>(x) + (second ? inner * call.element_size() : 0);
}

Tensor geglu(const Tensor& x, bool gate_first, bool tanh) {
  Call call("geglu", "x", x);
  const Array& a = call.first();
  const int64_t inner = inner_of(call, a);
  const Input in = call.input(a, x);
  call.begin();
  Tensor out = call.empty(Shape(a, inner));
  call.check(geglu_launch(out.data(), in.data, in.count, inner, inner, in.stride, gate_first, tanh, call.dtype(),
                          call.stream()),
             geglu_error);
  return out;
}

Tensor geglu_backward(const Tensor& dy, const Tensor& x, bool gate_first, bool tanh) {
  Call call("geglu_backward", "dy", dy);
  const Array &a = call.first(), b = call.array("x", x);
  const int64_t inner = inner_of(call, b);
  check_gradient(call, a, b, inner);
  const Input grad = call.input(a, dy), in = call.input(b, x);
  call.begin();
  Tensor dx = call.empty(Shape(b));
  call.check(geglu_backward_launch(dx.data(), grad.data, in.data, in.count, inner, 2 * inner, grad.stride, in.stride,
                                   gate_first, tanh, call.dtype(), call.stream()),
             geglu_error);
  return dx;
}

Tensor swiglu_packed(const Tensor& x, bool gate_first) {
  Call call("swiglu_packed", "x", x);
  const Array& a = call.first();
  const int64_t inner = inner_of(call, a);
  const Input in = call.input(a, x);
  call.begin();
  Tensor out = call.empty(Shape(a, inner));
  call.check(swiglu_packed_launch(out.data(), in.data, in.count, inner, inner, in.stride, gate_first, call.dtype(),
                                  call.stream()),
             geglu_error);
  return out;
}

Tensor swiglu_packed_backward(const Tensor& dy, const Tensor& x, bool gate_first) {
  Call call("swiglu_packed_backward", "dy", dy);
  const Array &a = call.first(), b = call.array("x", x);
  const int64_t inner = inner_of(call, b);
  check_gradient(call, a, b, inner);
  const Input grad = call.input(a, dy), in = call.input(b, x);
  call.begin();
  Tensor dx = call.empty(Shape(b));
  if (in.count == 0 || inner == 0) return dx;
  call.check(swiglu_backward_launch(half(dx.data(), inner, call, !gate_first), half(dx.data(), inner, call, gate_first),
                                    grad.data, half(in.data, inner, call, !gate_first),
                                    half(in.data, inner, call, gate_first), in.count, inner, 2 * inner, 2 * inner,
                                    grad.stride, in.stride, in.stride, call.dtype(), call.stream()),
             geglu_error);
  return dx;
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  Call call("swiglu", "gate", gate);
  const Array &a = call.first(), b = call.array("up", up);
  call.same_shape(b, a);
  const Input g = call.input(a, gate), u = call.input(b, up);
  call.begin();
  Tensor out = call.empty(Shape(a));
  call.check(swiglu_launch(out.data(), g.data, u.data, g.count, g.width, g.width, g.stride, u.stride, call.dtype(),
                           call.stream()),
             geglu_error);
  return out;
}

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up) {
  Call call("swiglu_backward", "dy", dy);
  const Array &a = call.first(), b = call.array("gate", gate), c = call.array("up", up);
  call.same_shape(b, a);
  call.same_shape(c, a);
  const Input grad = call.input(a, dy), g = call.input(b, gate), u = call.input(c, up);
  call.begin();
  const Shape shape(a);
  Tensor d_gate = call.empty(shape), d_up = call.empty(shape);
  call.check(swiglu_backward_launch(d_gate.data(), d_up.data(), grad.data, g.data, u.data, g.count, g.width, g.width,
                                    g.width, grad.stride, g.stride, u.stride, call.dtype(), call.stream()),
             geglu_error);
  return {std::move(d_gate), std::move(d_up)};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("geglu(Tensor x, bool gate_first=False, bool tanh=False) -> Tensor");
  ops.def("geglu_backward(Tensor dy, Tensor x, bool gate_first=False, bool tanh=False) -> Tensor");
  ops.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  ops.def("swiglu_backward(Tensor dy, Tensor gate, Tensor up) -> (Tensor, Tensor)");
  ops.def("swiglu_packed(Tensor x, bool gate_first=False) -> Tensor");
  ops.def("swiglu_packed_backward(Tensor dy, Tensor x, bool gate_first=False) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("geglu", BINDING(geglu));
  ops.impl("geglu_backward", BINDING(geglu_backward));
  ops.impl("swiglu", BINDING(swiglu));
  ops.impl("swiglu_backward", BINDING(swiglu_backward));
  ops.impl("swiglu_packed", BINDING(swiglu_packed));
  ops.impl("swiglu_packed_backward", BINDING(swiglu_packed_backward));
}

// For what they say of a tensor that is on no card.
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("geglu", BINDING(geglu));
  ops.impl("geglu_backward", BINDING(geglu_backward));
  ops.impl("swiglu", BINDING(swiglu));
  ops.impl("swiglu_backward", BINDING(swiglu_backward));
  ops.impl("swiglu_packed", BINDING(swiglu_packed));
  ops.impl("swiglu_packed_backward", BINDING(swiglu_packed_backward));
}
