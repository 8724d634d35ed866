// [of rope qk_norm_rope]
// The ops of the family rope: q and k rotated half against half, alone or behind a norm of each head, and in place.
// [else]
// Ops of the family rope: q and k rotated half against half.
// [end of]
#include "binding.h"

extern "C" {
int rope_launch(void* q_out, void* k_out, const void* q, const void* k, const void* cos, const void* sin, int64_t batch,
                int64_t tokens, int64_t q_heads, int64_t k_heads, int64_t head_dim, int64_t rotary_dim,
                int64_t q_out_batch_stride, int64_t q_out_token_stride, int64_t q_out_head_stride,
                int64_t k_out_batch_stride, int64_t k_out_token_stride, int64_t k_out_head_stride,
                int64_t q_batch_stride, int64_t q_token_stride, int64_t q_head_stride, int64_t k_batch_stride,
                int64_t k_token_stride, int64_t k_head_stride, int64_t table_batch_stride, int64_t table_token_stride,
                int tables_f32, int inverse, int dtype, void* stream);
int rope_in_place_launch(void* q, void* k, const void* cos, const void* sin, int64_t batch, int64_t tokens,
                         int64_t q_heads, int64_t k_heads, int64_t head_dim, int64_t rotary_dim, int64_t q_batch_stride,
                         int64_t q_token_stride, int64_t q_head_stride, int64_t k_batch_stride, int64_t k_token_stride,
                         int64_t k_head_stride, int64_t table_batch_stride, int64_t table_token_stride, int tables_f32,
                         int inverse, int dtype, void* stream);
int qk_norm_rope_launch(void* q_out, void* k_out, const void* q, const void* k, const void* q_weight,
                        const void* k_weight, const void* cos, const void* sin, int64_t batch, int64_t tokens,
                        int64_t q_heads, int64_t k_heads, int64_t head_dim, int64_t rotary_dim,
                        int64_t q_out_batch_stride, int64_t q_out_token_stride, int64_t q_out_head_stride,
                        int64_t k_out_batch_stride, int64_t k_out_token_stride, int64_t k_out_head_stride,
                        int64_t q_batch_stride, int64_t q_token_stride, int64_t q_head_stride, int64_t k_batch_stride,
                        int64_t k_token_stride, int64_t k_head_stride, int64_t table_batch_stride,
                        int64_t table_token_stride, float eps, float weight_offset, int round_first, int tables_f32,
                        int dtype, void* stream);
int qk_norm_rope_in_place_launch(void* q, void* k, const void* q_weight, const void* k_weight, const void* cos,
                                 const void* sin, int64_t batch, int64_t tokens, int64_t q_heads, int64_t k_heads,
                                 int64_t head_dim, int64_t rotary_dim, int64_t q_batch_stride, int64_t q_token_stride,
                                 int64_t q_head_stride, int64_t k_batch_stride, int64_t k_token_stride,
                                 int64_t k_head_stride, int64_t table_batch_stride, int64_t table_token_stride,
                                 float eps, float weight_offset, int round_first, int tables_f32, int dtype,
                                 void* stream);
const char* rope_error(int code);
}

namespace {

using binding::Array;
using binding::Call;
using binding::OptionalTensor;
using binding::Shape;
using binding::Tensor;

// q, k or an output of them: [batch, tokens, heads, head_dim], whatever order torch has them in.
struct Heads {
  void* data = nullptr;
  int64_t dims = 0;  // 3 without batch
  int64_t batch = 0, tokens = 0, heads = 0, head_dim = 0;
  int64_t batch_stride = 0, token_stride = 0, head_stride = 0;
  Tensor copy;
};

// cos and sin.
struct Tables {
  const void *cos, *sin;
  int64_t batch_stride, token_stride;
  bool f32;
};

Heads heads_of(const Call& call, const Array& a, bool heads_first) {
  if (a.dims != 3 && a.dims != 4) {
    call.fail(a.name, " must be [batch, ", heads_first ? "heads, tokens" : "tokens, heads",
              ", head_dim], or the same without batch, but is ", a);
  }
  const int64_t head = a.dims - (heads_first ? 3 : 2), token = a.dims - (heads_first ? 2 : 3);
  Heads h;
  h.data = a.data, h.dims = a.dims;
  h.batch = a.dims == 4 ? a.sizes[0] : 1, h.batch_stride = a.dims == 4 ? a.strides[0] : 0;
  h.tokens = a.sizes[token], h.token_stride = a.strides[token];
  h.heads = a.sizes[head], h.head_stride = a.strides[head];
  h.head_dim = a.width();
  return h;
}

bool side_by_side(const Array& a) { return a.width() <= 1 || a.elements() == 0 || a.strides[a.dims - 1] == 1; }

// An input, copied where the elements of its heads are not side by side.
Heads input(const Call& call, const char* name, const Tensor& t, bool heads_first) {
  const Array a = call.array(name, t);
  if (side_by_side(a)) return heads_of(call, a, heads_first);
  Tensor copy = call.contiguous(t);
  Heads h = heads_of(call, call.array(name, copy), heads_first);
  h.copy = std::move(copy);
  return h;
}

Heads in_place(const Call& call, const char* name, const Tensor& t, bool heads_first) {
  const Array a = call.array(name, t);
  if (!side_by_side(a)) {
    call.fail(name, " must have the elements of a head side by side, but is ", a,
              "; use the op that does not work in place");
  }
  return heads_of(call, a, heads_first);
}

void check_k(const Call& call, const Heads& q, const Heads& k) {
  if (k.dims != q.dims) call.fail("k must have q's ", q.dims, " dimensions, but has ", k.dims);
  if (k.batch != q.batch || k.tokens != q.tokens || k.head_dim != q.head_dim) {
    call.fail("k must have q's batch ", q.batch, ", tokens ", q.tokens, " and head_dim ", q.head_dim, ", but has ",
              k.batch, ", ", k.tokens, " and ", k.head_dim);
  }
}

Tables tables_of(const Call& call, const Tensor& cos, const Tensor& sin, const Heads& q, int64_t rotary_dim) {
  if (rotary_dim < 0 || rotary_dim > q.head_dim || rotary_dim % 2 != 0) {
    call.fail("rotary_dim must be even and at most head_dim, ", q.head_dim, ", but is ", rotary_dim);
  }
  const Array c = call.array_of_any_type("cos", cos), s = call.array_of_any_type("sin", sin);
  const bool f32 = call.is_float32(cos);
  if (!f32) call.array("cos", cos);
  if (call.is_float32(sin) != f32) call.fail("sin must be of cos's dtype");
  if (!f32) call.array("sin", sin);
  call.same_shape(s, c);
  const bool batched = c.dims == 3;
  if ((c.dims != 2 && !batched) || c.sizes[c.dims - 2] != q.tokens || c.width() < rotary_dim / 2 ||
      (batched && c.sizes[0] != 1 && c.sizes[0] != q.batch)) {
    call.fail("cos and sin must be [", q.batch, " or 1, ", q.tokens, ", at least ", rotary_dim / 2,
              "], or the same without batch, but are ", c);
  }
  for (int64_t i = 0; i < c.dims; ++i) {
    const bool counts = c.sizes[i] > 1 && c.elements() != 0;
    if (counts && (c.strides[i] != s.strides[i] || (i == c.dims - 1 && c.strides[i] != 1))) {
      call.fail("cos and sin must have the same strides, the last one 1, but cos is ", c, " and sin is ", s);
    }
  }
  return {c.data, s.data, batched && c.sizes[0] > 1 ? c.strides[0] : 0, c.strides[c.dims - 2], f32};
}

// An output lies in memory by tokens, as a projection writes it, in whatever order torch has its dimensions.
Tensor output(const Call& call, const Heads& like, bool heads_first, Heads& out) {
  const int64_t dims = like.dims;
  Shape shape = dims == 4 ? Shape{like.batch, like.tokens, like.heads, like.head_dim}
                          : Shape{like.tokens, like.heads, like.head_dim};
  out.batch_stride = dims == 4 ? shape.strides[0] : 0;
  out.token_stride = shape.strides[dims - 3], out.head_stride = shape.strides[dims - 2];
  if (heads_first) {
    std::swap(shape.sizes[dims - 3], shape.sizes[dims - 2]);
    std::swap(shape.strides[dims - 3], shape.strides[dims - 2]);
  }
  Tensor made = call.empty(shape);
  out.data = made.data();
  return made;
}

// [of rope qk_norm_rope]
// What rope and qk_norm_rope have in common: q, and k where there is one.
// [else]
// q, and k where there is one.
// [end of]
struct Pair {
  Heads q, k;
  Tables tables;
};

Pair pair_of(const Call& call, const Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
             int64_t rotary_dim, bool heads_first, bool writes) {
  const auto take = writes ? in_place : input;
  Pair pair = {take(call, "q", q, heads_first), {}, {}};
  if (k.present()) {
    pair.k = take(call, "k", k, heads_first);
    check_k(call, pair.q, pair.k);
  }
  pair.tables = tables_of(call, cos, sin, pair.q, rotary_dim);
  return pair;
}

std::tuple<Tensor, Tensor> rope(const Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
                                int64_t rotary_dim, bool heads_first, bool inverse) {
  Call call("rope", "q", q);
  const Pair in = pair_of(call, q, k, cos, sin, rotary_dim, heads_first, false);
  call.begin();
  Heads a, b;
  Tensor q_out = output(call, in.q, heads_first, a);
  Tensor k_out = k.present() ? output(call, in.k, heads_first, b) : call.empty(Shape{0});
  call.check(
      rope_launch(a.data, b.data, in.q.data, in.k.data, in.tables.cos, in.tables.sin, in.q.batch, in.q.tokens,
                  in.q.heads, in.k.heads, in.q.head_dim, rotary_dim, a.batch_stride, a.token_stride, a.head_stride,
                  b.batch_stride, b.token_stride, b.head_stride, in.q.batch_stride, in.q.token_stride, in.q.head_stride,
                  in.k.batch_stride, in.k.token_stride, in.k.head_stride, in.tables.batch_stride,
                  in.tables.token_stride, in.tables.f32, inverse, call.dtype(), call.stream()),
      rope_error);
  return {std::move(q_out), std::move(k_out)};
}

void rope_in_place(const Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin, int64_t rotary_dim,
                   bool heads_first, bool inverse) {
  Call call("rope_", "q", q);
  const Pair in = pair_of(call, q, k, cos, sin, rotary_dim, heads_first, true);
  call.begin();
  call.check(rope_in_place_launch(in.q.data, in.k.data, in.tables.cos, in.tables.sin, in.q.batch, in.q.tokens,
                                  in.q.heads, in.k.heads, in.q.head_dim, rotary_dim, in.q.batch_stride,
                                  in.q.token_stride, in.q.head_stride, in.k.batch_stride, in.k.token_stride,
                                  in.k.head_stride, in.tables.batch_stride, in.tables.token_stride, in.tables.f32,
                                  inverse, call.dtype(), call.stream()),
             rope_error);
}

std::tuple<Tensor, Tensor> qk_norm_rope(const Tensor& q, const OptionalTensor& k, const OptionalTensor& q_weight,
                                        const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
                                        int64_t rotary_dim, double eps, double weight_offset, bool round_first,
                                        bool heads_first) {
  Call call("qk_norm_rope", "q", q);
  const Pair in = pair_of(call, q, k, cos, sin, rotary_dim, heads_first, false);
  const void* q_row = call.row("q_weight", q_weight, in.q.head_dim);
  const void* k_row = call.row("k_weight", k_weight, in.q.head_dim);
  call.begin();
  Heads a, b;
  Tensor q_out = output(call, in.q, heads_first, a);
  Tensor k_out = k.present() ? output(call, in.k, heads_first, b) : call.empty(Shape{0});
  call.check(
      qk_norm_rope_launch(a.data, b.data, in.q.data, in.k.data, q_row, k_row, in.tables.cos, in.tables.sin, in.q.batch,
                          in.q.tokens, in.q.heads, in.k.heads, in.q.head_dim, rotary_dim, a.batch_stride,
                          a.token_stride, a.head_stride, b.batch_stride, b.token_stride, b.head_stride,
                          in.q.batch_stride, in.q.token_stride, in.q.head_stride, in.k.batch_stride, in.k.token_stride,
                          in.k.head_stride, in.tables.batch_stride, in.tables.token_stride, static_cast<float>(eps),
                          static_cast<float>(weight_offset), round_first, in.tables.f32, call.dtype(), call.stream()),
      rope_error);
  return {std::move(q_out), std::move(k_out)};
}

void qk_norm_rope_in_place(const Tensor& q, const OptionalTensor& k, const OptionalTensor& q_weight,
                           const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin, int64_t rotary_dim,
                           double eps, double weight_offset, bool round_first, bool heads_first) {
  Call call("qk_norm_rope_", "q", q);
  const Pair in = pair_of(call, q, k, cos, sin, rotary_dim, heads_first, true);
  const void* q_row = call.row("q_weight", q_weight, in.q.head_dim);
  const void* k_row = call.row("k_weight", k_weight, in.q.head_dim);
  call.begin();
  call.check(qk_norm_rope_in_place_launch(
                 in.q.data, in.k.data, q_row, k_row, in.tables.cos, in.tables.sin, in.q.batch, in.q.tokens, in.q.heads,
                 in.k.heads, in.q.head_dim, rotary_dim, in.q.batch_stride, in.q.token_stride, in.q.head_stride,
                 in.k.batch_stride, in.k.token_stride, in.k.head_stride, in.tables.batch_stride, in.tables.token_stride,
                 static_cast<float>(eps), static_cast<float>(weight_offset), round_first, in.tables.f32, call.dtype(),
                 call.stream()),
             rope_error);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def(
      "rope(Tensor q, Tensor? k, Tensor cos, Tensor sin, SymInt rotary_dim, bool heads_first=False, "
      "bool inverse=False) -> (Tensor, Tensor)");
  ops.def(
      "rope_(Tensor(a!) q, Tensor(b!)? k, Tensor cos, Tensor sin, SymInt rotary_dim, bool heads_first=False, "
      "bool inverse=False) -> ()");
  ops.def(
      "qk_norm_rope(Tensor q, Tensor? k, Tensor? q_weight, Tensor? k_weight, Tensor cos, Tensor sin, "
      "SymInt rotary_dim, float eps, float weight_offset=0.0, bool round_first=False, bool heads_first=False) "
      "-> (Tensor, Tensor)");
  ops.def(
      "qk_norm_rope_(Tensor(a!) q, Tensor(b!)? k, Tensor? q_weight, Tensor? k_weight, Tensor cos, Tensor sin, "
      "SymInt rotary_dim, float eps, float weight_offset=0.0, bool round_first=False, bool heads_first=False) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("rope", BINDING(rope));
  ops.impl("rope_", BINDING(rope_in_place));
  ops.impl("qk_norm_rope", BINDING(qk_norm_rope));
  ops.impl("qk_norm_rope_", BINDING(qk_norm_rope_in_place));
}

// For what they say of a tensor that is on no card.
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("rope", BINDING(rope));
  ops.impl("rope_", BINDING(rope_in_place));
  ops.impl("qk_norm_rope", BINDING(qk_norm_rope));
  ops.impl("qk_norm_rope_", BINDING(qk_norm_rope_in_place));
}
