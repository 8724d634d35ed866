// [of layer_norm adaln gate_residual gate_residual_adaln]
// The ops of the family adaln: a norm scaled and shifted by modulations, a gated residual, and both in one pass.
// [else]
// Ops of the family adaln: normalisation and gated residuals.
// [end of]
#include "binding.h"

extern "C" {
int layer_norm_launch(void* out, const void* x, const void* weight, const void* bias, int64_t rows, int64_t width,
                      int64_t out_stride, int64_t x_stride, float eps, int dtype, void* stream);
int adaln_launch(void* out, const void* x, const void* weight, const void* bias, const void* scale, const void* shift,
                 const void* scale_table, const void* shift_table, int64_t rows, int64_t width,
                 int64_t rows_per_modulation, int64_t out_stride, int64_t x_stride, int64_t scale_stride,
                 int64_t shift_stride, float eps, int norm, int dtype, void* stream);
int gate_residual_launch(void* out, const void* h, const void* x, const void* gate, const void* gate_table,
                         int64_t rows, int64_t width, int64_t rows_per_modulation, int64_t out_stride, int64_t h_stride,
                         int64_t x_stride, int64_t gate_stride, int dtype, void* stream);
int gate_residual_in_place_launch(void* h, const void* x, const void* gate, const void* gate_table, int64_t rows,
                                  int64_t width, int64_t rows_per_modulation, int64_t h_stride, int64_t x_stride,
                                  int64_t gate_stride, int dtype, void* stream);
int gate_residual_adaln_launch(void* out, void* sum, const void* h, const void* x, const void* gate,
                               const void* gate_table, const void* weight, const void* bias, const void* scale,
                               const void* shift, const void* scale_table, const void* shift_table, int64_t rows,
                               int64_t width, int64_t rows_per_modulation, int64_t out_stride, int64_t sum_stride,
                               int64_t h_stride, int64_t x_stride, int64_t gate_stride, int64_t scale_stride,
                               int64_t shift_stride, float eps, int norm, int dtype, void* stream);
int gate_residual_adaln_in_place_launch(void* out, void* h, const void* x, const void* gate, const void* gate_table,
                                        const void* weight, const void* bias, const void* scale, const void* shift,
                                        const void* scale_table, const void* shift_table, int64_t rows, int64_t width,
                                        int64_t rows_per_modulation, int64_t out_stride, int64_t h_stride,
                                        int64_t x_stride, int64_t gate_stride, int64_t scale_stride,
                                        int64_t shift_stride, float eps, int norm, int dtype, void* stream);
const char* adaln_error(int code);
}

namespace {

using binding::Array;
using binding::Call;
using binding::Input;
using binding::OptionalTensor;
using binding::Rows;
using binding::Shape;
using binding::Tensor;

// The modulations of a call: each has a row for as many rows of x as the others.
class Modulations {
 public:
  Modulations(const Call& call, const Array& x) : call_(call), x_(x) {}

  // A modulation has x's dimensions up to some one, then 1 or nothing, and x's last. Its rows, none for an absent one.
  Input take(const char* name, const OptionalTensor& t) {
    if (!t.present()) return {};
    const Array a = call_.array(name, t);
    int64_t same = 0, rows = 1;
    while (same < a.dims - 1 && same < x_.dims - 1 && a.sizes[same] == x_.sizes[same]) ++same;
    bool fits = a.width() == x_.width() && a.dims <= x_.dims;
    for (int64_t i = same; i < a.dims - 1; ++i) fits = fits && a.sizes[i] == 1;
    if (!fits) {
      call_.fail(name, " must have the dimensions of ", x_.name, " up to some one, then 1, and its last: ", x_.name,
                 " is ", x_, ", ", name, " is ", a);
    }
    for (int64_t i = same; i < x_.dims - 1; ++i) rows *= x_.sizes[i];
    if (rows == 0) rows = 1;
    if (by_ != nullptr && rows != rows_) {
      call_.fail(name, " must have a row for as many rows of ", x_.name, " as ", by_, ", ", rows_, ", but has one for ",
                 rows);
    }
    by_ = name, rows_ = rows;
    return call_.input(a, t);
  }

  int64_t rows() const { return rows_; }

 private:
  const Call& call_;
  const Array& x_;
  const char* by_ = nullptr;
  int64_t rows_ = 1;
};

// A table is added to a modulation.
const void* table(const Call& call, const char* name, const OptionalTensor& t, const char* of,
                  const OptionalTensor& modulation, int64_t width) {
  if (t.present() && !modulation.present()) call.fail(name, " is added to ", of, ", which is not there");
  const void* row = call.row(name, t, width);
  // Without elements a modulation has no address, which the launcher takes for its absence.
  return call.first().elements() == 0 ? nullptr : row;
}

Tensor layer_norm(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps) {
  Call call("layer_norm", "x", x);
  const Array& a = call.first();
  const Input in = call.input(a, x);
  const void *w = call.row("weight", weight, in.width), *b = call.row("bias", bias, in.width);
  call.begin();
  Tensor out = call.empty(Shape(a));
  call.check(layer_norm_launch(out.data(), in.data, w, b, in.count, in.width, in.width, in.stride,
                               static_cast<float>(eps), call.dtype(), call.stream()),
             adaln_error);
  return out;
}

Tensor adaln(const Tensor& x, const OptionalTensor& scale, const OptionalTensor& shift,
             const OptionalTensor& scale_table, const OptionalTensor& shift_table, const OptionalTensor& weight,
             const OptionalTensor& bias, double eps, bool layer_norm) {
  Call call("adaln", "x", x);
  const Array& a = call.first();
  const Input in = call.input(a, x);
  const void *w = call.row("weight", weight, in.width), *b = call.row("bias", bias, in.width);
  const void* scales = table(call, "scale_table", scale_table, "scale", scale, in.width);
  const void* shifts = table(call, "shift_table", shift_table, "shift", shift, in.width);
  Modulations modulations(call, a);
  const Input by = modulations.take("scale", scale), and_by = modulations.take("shift", shift);
  call.begin();
  Tensor out = call.empty(Shape(a));
  call.check(adaln_launch(out.data(), in.data, w, b, by.data, and_by.data, scales, shifts, in.count, in.width,
                          modulations.rows(), in.width, in.stride, by.stride, and_by.stride, static_cast<float>(eps),
                          layer_norm, call.dtype(), call.stream()),
             adaln_error);
  return out;
}

Tensor gate_residual(const Tensor& h, const Tensor& x, const OptionalTensor& gate, const OptionalTensor& gate_table) {
  Call call("gate_residual", "h", h);
  const Array &a = call.first(), b = call.array("x", x);
  call.same_shape(b, a);
  const Input to = call.input(a, h), in = call.input(b, x);
  const void* gates = table(call, "gate_table", gate_table, "gate", gate, in.width);
  Modulations modulations(call, a);
  const Input by = modulations.take("gate", gate);
  call.begin();
  Tensor out = call.empty(Shape(a));
  call.check(gate_residual_launch(out.data(), to.data, in.data, by.data, gates, in.count, in.width, modulations.rows(),
                                  in.width, to.stride, in.stride, by.stride, call.dtype(), call.stream()),
             adaln_error);
  return out;
}

void gate_residual_in_place(const Tensor& h, const Tensor& x, const OptionalTensor& gate,
                            const OptionalTensor& gate_table) {
  Call call("gate_residual_", "h", h);
  const Array &a = call.first(), b = call.array("x", x);
  call.same_shape(b, a);
  const Rows to = call.rows(a);
  const Input in = call.input(b, x);
  const void* gates = table(call, "gate_table", gate_table, "gate", gate, in.width);
  Modulations modulations(call, a);
  const Input by = modulations.take("gate", gate);
  call.begin();
  call.check(gate_residual_in_place_launch(to.data, in.data, by.data, gates, in.count, in.width, modulations.rows(),
                                           to.stride, in.stride, by.stride, call.dtype(), call.stream()),
             adaln_error);
}

// What gate_residual_adaln has beside h and x.
struct Gated {
  const void *weight, *bias, *gate_table, *scale_table, *shift_table;
  Input gate, scale, shift;
  int64_t rows;
};

Gated gated_of(const Call& call, const OptionalTensor& gate, const OptionalTensor& gate_table,
               const OptionalTensor& scale, const OptionalTensor& shift, const OptionalTensor& scale_table,
               const OptionalTensor& shift_table, const OptionalTensor& weight, const OptionalTensor& bias) {
  const int64_t width = call.first().width();
  Gated g = {};
  g.weight = call.row("weight", weight, width);
  g.bias = call.row("bias", bias, width);
  g.gate_table = table(call, "gate_table", gate_table, "gate", gate, width);
  g.scale_table = table(call, "scale_table", scale_table, "scale", scale, width);
  g.shift_table = table(call, "shift_table", shift_table, "shift", shift, width);
  Modulations modulations(call, call.first());
  g.gate = modulations.take("gate", gate);
  g.scale = modulations.take("scale", scale);
  g.shift = modulations.take("shift", shift);
  g.rows = modulations.rows();
  return g;
}

std::tuple<Tensor, Tensor> gate_residual_adaln(const Tensor& h, const Tensor& x, const OptionalTensor& gate,
                                               const OptionalTensor& gate_table, const OptionalTensor& scale,
                                               const OptionalTensor& shift, const OptionalTensor& scale_table,
                                               const OptionalTensor& shift_table, const OptionalTensor& weight,
                                               const OptionalTensor& bias, double eps, bool layer_norm) {
  Call call("gate_residual_adaln", "h", h);
  const Array &a = call.first(), b = call.array("x", x);
  call.same_shape(b, a);
  const Input to = call.input(a, h), in = call.input(b, x);
  const Gated g = gated_of(call, gate, gate_table, scale, shift, scale_table, shift_table, weight, bias);
  call.begin();
  const Shape shape(a);
  Tensor out = call.empty(shape), sum = call.empty(shape);
  call.check(
      gate_residual_adaln_launch(out.data(), sum.data(), to.data, in.data, g.gate.data, g.gate_table, g.weight, g.bias,
                                 g.scale.data, g.shift.data, g.scale_table, g.shift_table, in.count, in.width, g.rows,
                                 in.width, in.width, to.stride, in.stride, g.gate.stride, g.scale.stride,
                                 g.shift.stride, static_cast<float>(eps), layer_norm, call.dtype(), call.stream()),
      adaln_error);
  return {std::move(out), std::move(sum)};
}

Tensor gate_residual_adaln_in_place(const Tensor& h, const Tensor& x, const OptionalTensor& gate,
                                    const OptionalTensor& gate_table, const OptionalTensor& scale,
                                    const OptionalTensor& shift, const OptionalTensor& scale_table,
                                    const OptionalTensor& shift_table, const OptionalTensor& weight,
                                    const OptionalTensor& bias, double eps, bool layer_norm) {
  Call call("gate_residual_adaln_", "h", h);
  const Array &a = call.first(), b = call.array("x", x);
  call.same_shape(b, a);
  const Rows to = call.rows(a);
  const Input in = call.input(b, x);
  const Gated g = gated_of(call, gate, gate_table, scale, shift, scale_table, shift_table, weight, bias);
  call.begin();
  Tensor out = call.empty(Shape(a));
  call.check(gate_residual_adaln_in_place_launch(out.data(), to.data, in.data, g.gate.data, g.gate_table, g.weight,
                                                 g.bias, g.scale.data, g.shift.data, g.scale_table, g.shift_table,
                                                 in.count, in.width, g.rows, in.width, to.stride, in.stride,
                                                 g.gate.stride, g.scale.stride, g.shift.stride, static_cast<float>(eps),
                                                 layer_norm, call.dtype(), call.stream()),
             adaln_error);
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor");
  ops.def(
      "adaln(Tensor x, Tensor? scale, Tensor? shift, Tensor? scale_table, Tensor? shift_table, Tensor? weight, "
      "Tensor? bias, float eps, bool layer_norm=False) -> Tensor");
  ops.def("gate_residual(Tensor h, Tensor x, Tensor? gate, Tensor? gate_table=None) -> Tensor");
  ops.def("gate_residual_(Tensor(a!) h, Tensor x, Tensor? gate, Tensor? gate_table=None) -> ()");
  ops.def(
      "gate_residual_adaln(Tensor h, Tensor x, Tensor? gate, Tensor? gate_table, Tensor? scale, Tensor? shift, "
      "Tensor? scale_table, Tensor? shift_table, Tensor? weight, Tensor? bias, float eps, bool layer_norm=False) "
      "-> (Tensor, Tensor)");
  ops.def(
      "gate_residual_adaln_(Tensor(a!) h, Tensor x, Tensor? gate, Tensor? gate_table, Tensor? scale, Tensor? shift, "
      "Tensor? scale_table, Tensor? shift_table, Tensor? weight, Tensor? bias, float eps, bool layer_norm=False) "
      "-> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("layer_norm", BINDING(layer_norm));
  ops.impl("adaln", BINDING(adaln));
  ops.impl("gate_residual", BINDING(gate_residual));
  ops.impl("gate_residual_", BINDING(gate_residual_in_place));
  ops.impl("gate_residual_adaln", BINDING(gate_residual_adaln));
  ops.impl("gate_residual_adaln_", BINDING(gate_residual_adaln_in_place));
}

// For what they say of a tensor that is on no card.
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("layer_norm", BINDING(layer_norm));
  ops.impl("adaln", BINDING(adaln));
  ops.impl("gate_residual", BINDING(gate_residual));
  ops.impl("gate_residual_", BINDING(gate_residual_in_place));
  ops.impl("gate_residual_adaln", BINDING(gate_residual_adaln));
  ops.impl("gate_residual_adaln_", BINDING(gate_residual_adaln_in_place));
}
