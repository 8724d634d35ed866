// [of rope3d qk_norm_rope3d rope3d_table]
// The ops of the family rope3d: LTX-Video's rotation by frame, row and column, alone or behind a norm of each token, in
// place, and the table that it reads.
// [else]
// Ops of the family rope3d: LTX-Video's rotation by frame, row and column, and the table that it reads.
// [end of]
#include "binding.h"

extern "C" {
int rope3d_launch(void* q_out, void* k_out, const void* q, const void* k, const void* table, int64_t batch,
                  int64_t frames, int64_t height, int64_t width, int64_t dim, int64_t tables, int64_t q_out_stride,
                  int64_t k_out_stride, int64_t q_stride, int64_t k_stride, int inverse, int dtype, void* stream);
int rope3d_in_place_launch(void* q, void* k, const void* table, int64_t batch, int64_t frames, int64_t height,
                           int64_t width, int64_t dim, int64_t tables, int64_t q_stride, int64_t k_stride, int inverse,
                           int dtype, void* stream);
int qk_norm_rope3d_launch(void* q_out, void* k_out, const void* q, const void* k, const void* q_weight,
                          const void* k_weight, const void* table, int64_t batch, int64_t frames, int64_t height,
                          int64_t width, int64_t dim, int64_t tables, int64_t q_out_stride, int64_t k_out_stride,
                          int64_t q_stride, int64_t k_stride, float eps, int round_first, int dtype, void* stream);
int qk_norm_rope3d_in_place_launch(void* q, void* k, const void* q_weight, const void* k_weight, const void* table,
                                   int64_t batch, int64_t frames, int64_t height, int64_t width, int64_t dim,
                                   int64_t tables, int64_t q_stride, int64_t k_stride, float eps, int round_first,
                                   int dtype, void* stream);
int rope3d_table_launch(void* table, const void* coords, const void* frequencies, int64_t tables, int64_t positions,
                        int64_t dim, float theta, void* stream);
const char* rope3d_error(int code);
}

namespace {

using binding::are_rows;
using binding::Array;
using binding::Call;
using binding::Input;
using binding::OptionalTensor;
using binding::Shape;
using binding::Tensor;

// Frames, rows and columns.
struct Video {
  int64_t frames, height, width;
};

// q and k as [batch * tokens, dim], and the table.
struct Pair {
  Input q, k;
  int64_t batch = 1, tables = 1;
  const void* table = nullptr;
};

bool is_contiguous(const Array& a) {
  int64_t stride = 1;
  for (int64_t i = a.dims - 1; i >= 0; --i) {
    if (a.sizes[i] > 1 && a.strides[i] != stride) return false;
    stride *= a.sizes[i];
  }
  return true;
}

Pair pair_of(const Call& call, const Tensor& q, const OptionalTensor& k, const Tensor& table, const Video& video,
             bool writes) {
  const Array& a = call.first();
  if (a.dims != 2 && a.dims != 3) call.fail("q must be [batch, tokens, dim] or [tokens, dim], but is ", a);
  const auto take = [&](const Array& array, const Tensor& t) {
    if (!writes) return call.input(array, t);
    Input in;
    static_cast<binding::Rows&>(in) = call.rows(array);
    return in;
  };
  Pair pair;
  pair.q = take(a, q);
  if (k.present()) {
    const Array b = call.array("k", k);
    call.same_shape(b, a);
    pair.k = take(b, k);
  }
  const int64_t tokens = a.sizes[a.dims - 2], dim = a.width();
  pair.batch = a.dims == 3 ? a.sizes[0] : 1;
  if (video.frames < 0 || video.height < 0 || video.width < 0 || dim % 2 != 0) {
    call.fail("frames, height and width must not be negative, and dim must be even, but they are ", video.frames, ", ",
              video.height, ", ", video.width, " and ", dim);
  }
  int64_t product = 0;
  if (__builtin_mul_overflow(video.frames, video.height, &product) ||
      __builtin_mul_overflow(product, video.width, &product) || product != tokens) {
    call.fail("q must have frames * height * width tokens, ", video.frames, " * ", video.height, " * ", video.width,
              ", but has ", tokens);
  }
  const Array t = call.array_of_any_type("table", table);
  const int64_t positions = video.frames + video.height + video.width;
  const bool shaped = t.dims == 4 && (t.sizes[0] == 1 || t.sizes[0] == pair.batch) && t.sizes[1] == positions &&
                      t.sizes[2] == dim / 6 + 1 && t.sizes[3] == 2;
  if (!call.is_float32(table) || !shaped || !is_contiguous(t)) {
    call.fail("table must be a contiguous float32 [", pair.batch, " or 1, ", positions, ", ", dim / 6 + 1,
              ", 2] from rope3d_table, but is ", t);
  }
  pair.tables = t.sizes[0];
  pair.table = t.data;
  return pair;
}

std::tuple<Tensor, Tensor> rope3d(const Tensor& q, const OptionalTensor& k, const Tensor& table, int64_t frames,
                                  int64_t height, int64_t width, bool inverse) {
  Call call("rope3d", "q", q);
  const Pair in = pair_of(call, q, k, table, {frames, height, width}, false);
  call.begin();
  const Shape shape(call.first());
  Tensor q_out = call.empty(shape), k_out = k.present() ? call.empty(shape) : call.empty(Shape{0});
  const int64_t dim = in.q.width;
  call.check(rope3d_launch(q_out.data(), k.present() ? k_out.data() : nullptr, in.q.data, in.k.data, in.table, in.batch,
                           frames, height, width, dim, in.tables, dim, dim, in.q.stride, in.k.stride, inverse,
                           call.dtype(), call.stream()),
             rope3d_error);
  return {std::move(q_out), std::move(k_out)};
}

void rope3d_in_place(const Tensor& q, const OptionalTensor& k, const Tensor& table, int64_t frames, int64_t height,
                     int64_t width, bool inverse) {
  Call call("rope3d_", "q", q);
  const Pair in = pair_of(call, q, k, table, {frames, height, width}, true);
  call.begin();
  call.check(rope3d_in_place_launch(in.q.data, in.k.data, in.table, in.batch, frames, height, width, in.q.width,
                                    in.tables, in.q.stride, in.k.stride, inverse, call.dtype(), call.stream()),
             rope3d_error);
}

std::tuple<Tensor, Tensor> qk_norm_rope3d(const Tensor& q, const OptionalTensor& k, const OptionalTensor& q_weight,
                                          const OptionalTensor& k_weight, const Tensor& table, int64_t frames,
                                          int64_t height, int64_t width, double eps, bool round_first) {
  Call call("qk_norm_rope3d", "q", q);
  const Pair in = pair_of(call, q, k, table, {frames, height, width}, false);
  const int64_t dim = in.q.width;
  const void* q_row = call.row("q_weight", q_weight, dim);
  const void* k_row = call.row("k_weight", k_weight, dim);
  call.begin();
  const Shape shape(call.first());
  Tensor q_out = call.empty(shape), k_out = k.present() ? call.empty(shape) : call.empty(Shape{0});
  call.check(
      qk_norm_rope3d_launch(q_out.data(), k.present() ? k_out.data() : nullptr, in.q.data, in.k.data, q_row, k_row,
                            in.table, in.batch, frames, height, width, dim, in.tables, dim, dim, in.q.stride,
                            in.k.stride, static_cast<float>(eps), round_first, call.dtype(), call.stream()),
      rope3d_error);
  return {std::move(q_out), std::move(k_out)};
}

void qk_norm_rope3d_in_place(const Tensor& q, const OptionalTensor& k, const OptionalTensor& q_weight,
                             const OptionalTensor& k_weight, const Tensor& table, int64_t frames, int64_t height,
                             int64_t width, double eps, bool round_first) {
  Call call("qk_norm_rope3d_", "q", q);
  const Pair in = pair_of(call, q, k, table, {frames, height, width}, true);
  const void* q_row = call.row("q_weight", q_weight, in.q.width);
  const void* k_row = call.row("k_weight", k_weight, in.q.width);
  call.begin();
  call.check(qk_norm_rope3d_in_place_launch(in.q.data, in.k.data, q_row, k_row, in.table, in.batch, frames, height,
                                            width, in.q.width, in.tables, in.q.stride, in.k.stride,
                                            static_cast<float>(eps), round_first, call.dtype(), call.stream()),
             rope3d_error);
}

Tensor rope3d_table(const Tensor& coords, int64_t dim, double theta, const OptionalTensor& frequencies) {
  Call call("rope3d_table", "coords", coords);
  const Array& a = call.first();
  if (!call.is_float32(coords) || a.dims != 2 || !is_contiguous(a)) {
    call.fail("coords must be a contiguous float32 [tables, frames + height + width], but is ", a);
  }
  if (dim < 0 || dim % 2 != 0) call.fail("dim must be even and not negative, but is ", dim);
  const void* given = call.row("frequencies", frequencies, dim / 6);
  call.begin();
  Tensor table = call.empty(Shape{a.sizes[0], a.sizes[1], dim / 6 + 1, 2});
  call.check(rope3d_table_launch(table.data(), a.data, given, a.sizes[0], a.sizes[1], dim, static_cast<float>(theta),
                                 call.stream()),
             rope3d_error);
  return table;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def(
      "rope3d(Tensor q, Tensor? k, Tensor table, SymInt frames, SymInt height, SymInt width, bool inverse=False) "
      "-> (Tensor, Tensor)");
  ops.def(
      "rope3d_(Tensor(a!) q, Tensor(b!)? k, Tensor table, SymInt frames, SymInt height, SymInt width, "
      "bool inverse=False) -> ()");
  ops.def(
      "qk_norm_rope3d(Tensor q, Tensor? k, Tensor? q_weight, Tensor? k_weight, Tensor table, SymInt frames, "
      "SymInt height, SymInt width, float eps, bool round_first=False) -> (Tensor, Tensor)");
  ops.def(
      "qk_norm_rope3d_(Tensor(a!) q, Tensor(b!)? k, Tensor? q_weight, Tensor? k_weight, Tensor table, SymInt frames, "
      "SymInt height, SymInt width, float eps, bool round_first=False) -> ()");
  ops.def("rope3d_table(Tensor coords, SymInt dim, float theta, Tensor? frequencies=None) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("rope3d", BINDING(rope3d));
  ops.impl("rope3d_", BINDING(rope3d_in_place));
  ops.impl("qk_norm_rope3d", BINDING(qk_norm_rope3d));
  ops.impl("qk_norm_rope3d_", BINDING(qk_norm_rope3d_in_place));
  ops.impl("rope3d_table", BINDING(rope3d_table));
}

// For what they say of a tensor that is on no card.
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("rope3d", BINDING(rope3d));
  ops.impl("rope3d_", BINDING(rope3d_in_place));
  ops.impl("qk_norm_rope3d", BINDING(qk_norm_rope3d));
  ops.impl("qk_norm_rope3d_", BINDING(qk_norm_rope3d_in_place));
  ops.impl("rope3d_table", BINDING(rope3d_table));
}
