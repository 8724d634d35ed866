// [of rms_norm add_rms_norm]
// The ops of the family rmsnorm: rms_norm, add_rms_norm, both in place, and the gradient.
// [else]
// Ops of the family rmsnorm.
// [end of]
#include <cuda_runtime_api.h>

#include "binding.h"

extern "C" {
int rms_norm_launch(void* out, const void* x, const void* weight, int64_t rows, int64_t width, int64_t out_stride,
                    int64_t x_stride, float eps, float weight_offset, int round_first, int dtype, void* stream);
int add_rms_norm_launch(void* out, void* sum, const void* x, const void* residual, const void* weight, int64_t rows,
                        int64_t width, int64_t out_stride, int64_t sum_stride, int64_t x_stride,
                        int64_t residual_stride, float eps, float weight_offset, int round_first, int dtype,
                        void* stream);
const char* rmsnorm_error(int code);
int rms_norm_backward_launch(void* dx, void* dw, void* dw_f32, void* scratch, const void* dy, const void* x,
                             const void* weight, int64_t rows, int64_t width, int64_t blocks, int64_t dx_stride,
                             int64_t dy_stride, int64_t x_stride, float eps, float weight_offset, int dtype,
                             void* stream);
int64_t rms_norm_backward_blocks(int64_t rows, int64_t width, int dtype, int64_t sms);
const char* rms_norm_backward_error(int code);
}

namespace {

using binding::Array;
using binding::Call;
using binding::Input;
using binding::OptionalTensor;
using binding::Rows;
using binding::Shape;
using binding::Tensor;

Tensor rms_norm(const Tensor& x, const OptionalTensor& weight, double eps, double weight_offset, bool round_first) {
  Call call("rms_norm", "x", x);
  const Array& a = call.first();
  const Input in = call.input(a, x);
  const void* w = call.row("weight", weight, in.width);
  call.begin();
  Tensor out = call.empty(Shape(a));
  call.check(rms_norm_launch(out.data(), in.data, w, in.count, in.width, in.width, in.stride, static_cast<float>(eps),
                             static_cast<float>(weight_offset), round_first, call.dtype(), call.stream()),
             rmsnorm_error);
  return out;
}

void rms_norm_in_place(const Tensor& x, const OptionalTensor& weight, double eps, double weight_offset,
                       bool round_first) {
  Call call("rms_norm_", "x", x);
  const Rows in = call.rows(call.first());
  const void* w = call.row("weight", weight, in.width);
  call.begin();
  call.check(rms_norm_launch(in.data, in.data, w, in.count, in.width, in.stride, in.stride, static_cast<float>(eps),
                             static_cast<float>(weight_offset), round_first, call.dtype(), call.stream()),
             rmsnorm_error);
}

std::tuple<Tensor, Tensor> add_rms_norm(const Tensor& x, const Tensor& residual, const OptionalTensor& weight,
                                        double eps, double weight_offset, bool round_first) {
  Call call("add_rms_norm", "x", x);
  const Array &a = call.first(), b = call.array("residual", residual);
  call.same_shape(b, a);
  const Input in = call.input(a, x), add = call.input(b, residual);
  const void* w = call.row("weight", weight, in.width);
  call.begin();
  const Shape shape(a);
  Tensor out = call.empty(shape), sum = call.empty(shape);
  call.check(add_rms_norm_launch(out.data(), sum.data(), in.data, add.data, w, in.count, in.width, in.width, in.width,
                                 in.stride, add.stride, static_cast<float>(eps), static_cast<float>(weight_offset),
                                 round_first, call.dtype(), call.stream()),
             rmsnorm_error);
  return {std::move(out), std::move(sum)};
}

// Whether rows of a and b, as many and as wide, have an element in common. They may be slices of one tensor.
bool overlap(const Call& call, const Rows& a, const Rows& b) {
  if (a.count == 0 || a.width == 0) return false;
  const auto address = [](const Rows& rows) { return reinterpret_cast<uintptr_t>(rows.data); };
  const Rows &low = address(a) <= address(b) ? a : b, &high = address(a) <= address(b) ? b : a;
  const int64_t width = low.width * call.element_size(), last = low.count - 1;
  const int64_t step = low.stride * call.element_size(), other = high.stride * call.element_size();
  for (int64_t i = 0; i < high.count; ++i) {
    const int64_t begin = static_cast<int64_t>(address(high) - address(low)) + i * other;
    const int64_t row = begin / step < last ? begin / step : last, into = begin - row * step;
    if (into < width || (row < last && step - into < width)) return true;
    if (row == last || step == other) return false;  // the next row lies beyond, or between the next two as this one
  }
  return false;
}

void add_rms_norm_in_place(const Tensor& x, const Tensor& residual, const OptionalTensor& weight, double eps,
                           double weight_offset, bool round_first) {
  Call call("add_rms_norm_", "x", x);
  const Array &a = call.first(), b = call.array("residual", residual);
  call.same_shape(b, a);
  const Rows in = call.rows(a), add = call.rows(b);
  if (overlap(call, in, add)) {
    call.fail("the elements of x and residual overlap: both are written; pass a copy of one, or use add_rms_norm");
  }
  const void* w = call.row("weight", weight, in.width);
  call.begin();
  call.check(add_rms_norm_launch(in.data, add.data, in.data, add.data, w, in.count, in.width, in.stride, add.stride,
                                 in.stride, add.stride, static_cast<float>(eps), static_cast<float>(weight_offset),
                                 round_first, call.dtype(), call.stream()),
             rmsnorm_error);
}

// dx, and dw or an empty tensor where it is not asked for.
std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& dy, const Tensor& x, const OptionalTensor& weight,
                                             double eps, double weight_offset, bool weight_gradient) {
  Call call("rms_norm_backward", "dy", dy);
  const Array &a = call.first(), b = call.array("x", x);
  call.same_shape(b, a);
  const Input grad = call.input(a, dy), in = call.input(b, x);
  const void* w = call.row("weight", weight, in.width);
  call.begin();
  int64_t blocks = 1;
  Tensor scratch;
  if (weight_gradient) {
    int sms = 0;
    call.check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, call.device()), rms_norm_backward_error);
    blocks = rms_norm_backward_blocks(in.count, in.width, call.dtype(), sms);
    scratch = call.empty(Shape{blocks, in.width}, 0);
  }
  Tensor dx = call.empty(Shape(b)), dw = call.empty(Shape{weight_gradient ? in.width : 0});
  call.check(
      rms_norm_backward_launch(dx.data(), weight_gradient ? dw.data() : nullptr, nullptr, scratch.data(), grad.data,
                               in.data, w, in.count, in.width, blocks, in.width, grad.stride, in.stride,
                               static_cast<float>(eps), static_cast<float>(weight_offset), call.dtype(), call.stream()),
      rms_norm_backward_error);
  return {std::move(dx), std::move(dw)};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("rms_norm(Tensor x, Tensor? weight, float eps, float weight_offset=0.0, bool round_first=False) -> Tensor");
  ops.def("rms_norm_(Tensor(a!) x, Tensor? weight, float eps, float weight_offset=0.0, bool round_first=False) -> ()");
  ops.def(
      "add_rms_norm(Tensor x, Tensor residual, Tensor? weight, float eps, float weight_offset=0.0, "
      "bool round_first=False) -> (Tensor, Tensor)");
  ops.def(
      "add_rms_norm_(Tensor(a!) x, Tensor(b!) residual, Tensor? weight, float eps, float weight_offset=0.0, "
      "bool round_first=False) -> ()");
  ops.def(
      "rms_norm_backward(Tensor dy, Tensor x, Tensor? weight, float eps, float weight_offset=0.0, "
      "bool weight_gradient=True) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("rms_norm", BINDING(rms_norm));
  ops.impl("rms_norm_", BINDING(rms_norm_in_place));
  ops.impl("add_rms_norm", BINDING(add_rms_norm));
  ops.impl("add_rms_norm_", BINDING(add_rms_norm_in_place));
  ops.impl("rms_norm_backward", BINDING(rms_norm_backward));
}

// For what they say of a tensor that is on no card.
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("rms_norm", BINDING(rms_norm));
  ops.impl("rms_norm_", BINDING(rms_norm_in_place));
  ops.impl("add_rms_norm", BINDING(add_rms_norm));
  ops.impl("add_rms_norm_", BINDING(add_rms_norm_in_place));
  ops.impl("rms_norm_backward", BINDING(rms_norm_backward));
}
