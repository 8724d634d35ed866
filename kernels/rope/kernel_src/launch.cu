// The launchers: they check every argument, pick a kernel from the tuning table and launch it.
//
// Every tensor is [batch, tokens, heads, head_dim] with strides of its own and the elements of a head side by side: so
// q and k may be slices of one packed projection, and the outputs lie in memory as [batch, heads, tokens, head_dim].
// An output may be its input, with the same strides; any other overlap of an output with an input is undefined.
// Nothing here waits for the device.
#include <cuda_runtime.h>

#include <cstdint>

#include "arguments.h"
#include "dependent.cuh"
#include "kernels.h"
#include "launcher.h"

namespace rope {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kNegativeStride = 10004,
  kBadEps = 10005,
  kBadFlag = 10006,
  kMisaligned = 10007,
  kTooLarge = 10008,
  kNoCode = 10009,
  kBadRotaryDim = 10010,
  kOverlap = 10011,
};

// What a launcher was asked for.
struct Call {
  RopeArguments a = {};  // the tensors; what is counted in accesses is filled in here
  int64_t batch, tokens, q_heads, k_heads, head_dim, rotary_dim;
  int type;
  bool norm, in_place, inverse;
  cudaStream_t stream;

  int64_t size() const { return type == kF32 ? 4 : 2; }
  int64_t table_size() const { return a.tables_f32 != 0 ? 4 : size(); }
  int64_t heads(int i) const { return i == 0 ? q_heads : k_heads; }
};

// A dimension: its size, and the elements from one to the next.
struct Dimension {
  int64_t size, stride;
};

// One of the tensors with elements: a pointer, the dimensions outside a head or a row, and what lies side by side.
struct Tensor {
  const void* data;
  Dimension outer[3];
  int64_t inner;
  int64_t element;  // bytes
  bool written;
};

// f(tensor) for each tensor that this call touches, until one is not 0.
template <typename F>
int for_each_tensor(const Call& c, F f) {
  const Dimension batch = {c.batch, 0}, tokens = {c.tokens, 0}, none = {1, 0};
  for (int i = 0; i < 2; ++i) {
    const Heads& h = c.a.heads_of[i];
    if (c.heads(i) == 0) continue;
    const Dimension in[] = {{batch.size, h.in_batch}, {tokens.size, h.in_token}, {c.heads(i), h.in_head}};
    const Dimension out[] = {{batch.size, h.out_batch}, {tokens.size, h.out_token}, {c.heads(i), h.out_head}};
    if (const int error = f(Tensor{h.in, {in[0], in[1], in[2]}, c.head_dim, c.size(), false})) return error;
    if (const int error = f(Tensor{h.out, {out[0], out[1], out[2]}, c.head_dim, c.size(), true})) return error;
    if (h.weight == nullptr) continue;
    if (const int error = f(Tensor{h.weight, {none, none, none}, c.head_dim, c.size(), false})) return error;
  }
  if (c.rotary_dim == 0) return 0;
  for (const void* table : {c.a.cos, c.a.sin}) {
    const Dimension of_batch = {batch.size, c.a.table_batch}, of_token = {tokens.size, c.a.table_token};
    if (const int error = f(Tensor{table, {of_batch, of_token, none}, c.rotary_dim / 2, c.table_size(), false})) {
      return error;
    }
  }
  return 0;
}

bool is_flag(int value) { return value == 0 || value == 1; }

// Whether two elements have one address. Dimensions from the nearest stride to the farthest must step over all that
// lies within.
bool overlaps(const Tensor& t) {
  Dimension by_stride[3] = {t.outer[0], t.outer[1], t.outer[2]};
  for (int i = 0; i < 3; ++i)
    for (int j = i + 1; j < 3; ++j)
      if (by_stride[j].stride < by_stride[i].stride) {
        const Dimension other = by_stride[i];
        by_stride[i] = by_stride[j], by_stride[j] = other;
      }
  int64_t span = t.inner;
  for (const Dimension& d : by_stride) {
    if (d.size <= 1) continue;
    if (d.stride < span) return true;
    span += (d.size - 1) * d.stride;
  }
  return false;
}

// Whether the bytes from the first element to the last are more than addresses can tell, with room for sums of them.
bool too_large(const Tensor& t) {
  int64_t elements = t.inner;
  for (const Dimension& d : t.outer) {
    int64_t span = 0;
    if (d.size > 1 && (__builtin_mul_overflow(d.size - 1, d.stride, &span) ||
                       __builtin_add_overflow(elements, span, &elements))) {
      return true;
    }
  }
  return elements > INT64_MAX / 16;
}

bool empty(const Call& c) {
  return c.batch == 0 || c.tokens == 0 || c.head_dim == 0 || c.q_heads + c.k_heads == 0;
}

// 0, or why this call is refused.
int check(const Call& c) {
  constexpr int64_t kMost = 1 << 29;
  if (c.batch < 0 || c.tokens < 0 || c.q_heads < 0 || c.k_heads < 0 || c.head_dim < 0) return kNegativeSize;
  if (c.type != kF32 && c.type != kF16 && c.type != kBF16) return kUnknownType;
  if (c.rotary_dim < 0 || c.rotary_dim > c.head_dim || c.rotary_dim % 2 != 0) return kBadRotaryDim;
  if (!(c.a.eps >= 0.0f && c.a.eps <= 3.402823466e38f)) return kBadEps;
  if (!is_flag(c.a.round_first) || !is_flag(c.a.tables_f32)) return kBadFlag;
  if (c.q_heads > kMost || c.k_heads > kMost || c.head_dim > kMost) return kTooLarge;
  return for_each_tensor(c, [&](const Tensor& t) -> int {
    for (const Dimension& d : t.outer)
      if (d.size > 1 && d.stride < 0) return kNegativeStride;
    if (!divides(t.element, t.data)) return kMisaligned;
    if (empty(c)) return 0;
    if (t.data == nullptr) return kNullPointer;
    if (too_large(t)) return kTooLarge;
    return t.written && overlaps(t) ? kOverlap : 0;
  });
}

// The bytes of the widest access that every head, half of it and row of a table is a whole number of, from an aligned
// address on.
int widest_access(const Call& c) {
  for (const int bytes : {16, 4}) {
    const bool whole = c.head_dim * c.size() % bytes == 0 && c.rotary_dim / 2 * c.size() % bytes == 0;
    const int narrow = !whole ? 1 : for_each_tensor(c, [&](const Tensor& t) -> int {
      if (!divides(bytes, t.data)) return 1;
      for (const Dimension& d : t.outer)
        if (d.size > 1 && d.stride * t.element % bytes != 0) return 1;
      return 0;
    });
    if (narrow == 0) return bytes;
  }
  return static_cast<int>(c.size());
}

// Whether heads lie farther apart than tokens in a tensor.
bool lies_by_heads(const Call& c) {
  for (int i = 0; i < 2; ++i) {
    const Heads& h = c.a.heads_of[i];
    if (c.heads(i) > 1 && (h.in_head > h.in_token || h.out_head > h.out_token)) return true;
  }
  return false;
}

// The arguments from a place of the batch and a token on.
RopeArguments from(const Call& c, int64_t batch, int64_t token) {
  RopeArguments a = c.a;
  for (int i = 0; i < 2; ++i) {
    Heads& h = a.heads_of[i];
    if (c.heads(i) == 0) continue;
    h.in = static_cast<const char*>(h.in) + (batch * h.in_batch + token * h.in_token) * c.size();
    h.out = static_cast<char*>(h.out) + (batch * h.out_batch + token * h.out_token) * c.size();
  }
  if (c.rotary_dim == 0) return a;
  const int64_t row = (batch * a.table_batch + token * a.table_token) * c.table_size();
  a.cos = static_cast<const char*>(a.cos) + row;
  a.sin = static_cast<const char*>(a.sin) + row;
  return a;
}

// Fills in what rope_heads takes: strides in packs of 16 bytes. False where one is too large.
bool count_in_packs(RopeArguments& a, const Call& c) {
  bool fit = true;
  const auto packs = [&](int64_t size, int64_t stride, int64_t element) {
    const int64_t packs = size > 1 ? stride / (16 / element) : 0;  // a dimension of size 1 may have any stride
    fit = fit && packs <= INT32_MAX;
    return static_cast<uint32_t>(packs);
  };
  for (int i = 0; i < 2; ++i) {
    const Heads& h = a.heads_of[i];
    HeadsInPacks& p = a.packs_of[i];
    p.in = h.in, p.out = h.out, p.weight = h.weight;
    if (c.heads(i) == 0) continue;
    p.in_batch = packs(c.batch, h.in_batch, c.size()), p.out_batch = packs(c.batch, h.out_batch, c.size());
    p.in_token = packs(c.tokens, h.in_token, c.size()), p.out_token = packs(c.tokens, h.out_token, c.size());
    p.in_head = packs(c.heads(i), h.in_head, c.size()), p.out_head = packs(c.heads(i), h.out_head, c.size());
  }
  if (c.rotary_dim == 0) return fit;
  a.table_batch_packs = packs(c.batch, a.table_batch, c.table_size());
  a.table_token_packs = packs(c.tokens, a.table_token, c.table_size());
  return fit;
}

int launch(Call c) {
  if (const int error = check(c)) return error;
  if (empty(c) || (c.in_place && !c.norm && c.rotary_dim == 0)) return cudaSuccess;
  if (c.type == kF32) c.a.tables_f32 = 1;
  const auto kernel_of = c.type == kF32 ? rope_kernel_f32 : c.type == kF16 ? rope_kernel_f16 : rope_kernel_bf16;
  const int access = widest_access(c);
  const int64_t elements = access / c.size(), heads = c.q_heads + c.k_heads;

  RopeArguments& a = c.a;
  a.q_heads = static_cast<int>(c.q_heads);
  a.packs = static_cast<int>(c.head_dim / elements);
  a.half = static_cast<int>(c.rotary_dim / 2 / elements);
  a.slots = c.in_place && !c.norm ? a.half : a.packs - a.half;
  a.first = c.inverse ? a.half : 0;
  a.across = c.inverse ? -a.half : a.half;
  const bool split = a.half % 2 != 0 && a.half > 1;
  a.split_first = !split ? -1 : c.inverse ? 0 : a.half - 1;
  a.split_second = !split ? -1 : c.inverse ? a.half - 1 : 0;
  a.inverse_head_dim = 1.0f / static_cast<float>(c.head_dim);

  int arch = 0;
  if (const cudaError_t error = code_arch(kernel_of({32, 0}, 16, false, false), arch)) return error;
  const double bytes = 2.0 * c.batch * c.tokens * heads * c.head_dim * c.size();
  const int64_t held = access == 16 && count_in_packs(a, c) ? a.slots : kAnySize;
  const Tuning* tuning = find_rope_tuning(arch, access, c.norm, a.tables_f32 != 0 && c.type != kF32, held,
                                     bytes < 1e18 ? static_cast<int64_t>(bytes) : kAnySize);
  if (tuning == nullptr) return kNoCode;
  Layout layout = tuning->layout;
  // No thread has heads of both.
  if (layout.heads > 1 && (c.q_heads % layout.heads != 0 || c.k_heads % layout.heads != 0)) layout.heads = 1;
  const void* kernel = kernel_of(layout, access, c.norm, a.tables_f32 != 0);

  // Rows by heads where a tensor lies so, whose runs in memory are of one head: eight tokens of 256 bytes are 2 KB.
  constexpr int64_t kMostRows = 1 << 30;
  a.rows_of_token = static_cast<int>(heads) / (layout.heads == 0 ? 1 : layout.heads);
  const int64_t most_tokens = kMostRows / a.rows_of_token;
  const bool by_heads = lies_by_heads(c) && c.tokens >= 8 && most_tokens >= 8;
  a.token_bits = by_heads ? 3 : 0;
  a.lanes = a.slots < 32 ? a.slots : 32;
  a.rows_in_warp = 32 / a.lanes;
  // For n below 32 the error, n * lanes / (2^16 * lanes) at most, is less than the 1 / lanes to the next integer.
  a.lane_part = 65536 / a.lanes + 1, a.by_rows_of_token = WideDivisor(a.rows_of_token);

  // One launch, but for more tokens than are counted or a larger batch than a grid has room for.
  constexpr int64_t kMostInGrid = 65535;
  for (int64_t batch = 0; batch < c.batch; batch += kMostInGrid) {
    for (int64_t token = 0; token < c.tokens; token += most_tokens) {
      const int64_t in_batch = c.batch - batch < kMostInGrid ? c.batch - batch : kMostInGrid;
      const int64_t tokens = c.tokens - token < most_tokens ? c.tokens - token : most_tokens;
      RopeArguments piece = from(c, batch, token);
      piece.tokens = static_cast<int>(tokens);
      for (int i = 0; i < 2; ++i) piece.packs_of[i].in = piece.heads_of[i].in, piece.packs_of[i].out = piece.heads_of[i].out;
      void* parameters[] = {&piece};
      const int64_t rows = ((((tokens - 1) >> a.token_bits) + 1) << a.token_bits) * a.rows_of_token;
      const int64_t warps = (rows - 1) / a.rows_in_warp + 1;
      const int64_t blocks = (warps - 1) / ((by_heads ? kMostThreads : layout.threads) / 32) + 1;
      const dim3 threads(static_cast<unsigned>((warps - 1) / blocks + 1) * 32);
      const dim3 grid(static_cast<unsigned>(blocks), 1, static_cast<unsigned>(in_batch));
      const auto error = cleared(launch_dependent(kernel, arch, grid, threads, parameters, 0, c.stream));
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace

// q_out [batch, tokens, q_heads, head_dim] and k_out [.., k_heads, ..] are q and k with the first rotary_dim elements of
// each head rotated, half against half, as transformers' apply_rotary_pos_emb does; the rest is copied. Without k,
// k_heads is 0 and its pointers may be null. Strides are in elements; that of a dimension of size 1 may be anything.
//
// cos and sin are [batch or 1, tokens, rotary_dim / 2 or more columns]; table_batch_stride is 0 for a table that all of
// the batch share. Columns behind rotary_dim / 2 are not read: transformers' tables hold the same values twice.
// tables_f32: 1 for fp32 tables, 0 for tables of the tensors' type. inverse: 1 turns back, which is the backward of it.
// dtype: 0 f32, 1 f16, 2 bf16. Returns 0, a cudaError_t, or a code that rope_error explains; with such a code nothing
// was launched. Empty tensors launch nothing and return 0.
extern "C" int rope_launch(void* q_out, void* k_out, const void* q, const void* k, const void* cos, const void* sin,
                           int64_t batch, int64_t tokens, int64_t q_heads, int64_t k_heads, int64_t head_dim,
                           int64_t rotary_dim, int64_t q_out_batch_stride, int64_t q_out_token_stride,
                           int64_t q_out_head_stride, int64_t k_out_batch_stride, int64_t k_out_token_stride,
                           int64_t k_out_head_stride, int64_t q_batch_stride, int64_t q_token_stride,
                           int64_t q_head_stride, int64_t k_batch_stride, int64_t k_token_stride,
                           int64_t k_head_stride, int64_t table_batch_stride, int64_t table_token_stride,
                           int tables_f32, int inverse, int dtype, void* stream) {
  if (!is_flag(inverse)) return kBadFlag;
  Call c = {};
  c.a.heads_of[0] = {q, q_batch_stride, q_token_stride, q_head_stride,
                     q_out, q_out_batch_stride, q_out_token_stride, q_out_head_stride, nullptr};
  c.a.heads_of[1] = {k, k_batch_stride, k_token_stride, k_head_stride,
                     k_out, k_out_batch_stride, k_out_token_stride, k_out_head_stride, nullptr};
  c.a.cos = cos, c.a.sin = sin;
  c.a.table_batch = table_batch_stride, c.a.table_token = table_token_stride, c.a.tables_f32 = tables_f32;
  c.batch = batch, c.tokens = tokens, c.q_heads = q_heads, c.k_heads = k_heads;
  c.head_dim = head_dim, c.rotary_dim = rotary_dim;
  c.type = dtype, c.inverse = inverse != 0, c.stream = static_cast<cudaStream_t>(stream);
  return launch(c);
}

// The same, with q and k rotated where they are. What lies behind rotary_dim is neither read nor written.
extern "C" int rope_in_place_launch(void* q, void* k, const void* cos, const void* sin, int64_t batch, int64_t tokens,
                                    int64_t q_heads, int64_t k_heads, int64_t head_dim, int64_t rotary_dim,
                                    int64_t q_batch_stride, int64_t q_token_stride, int64_t q_head_stride,
                                    int64_t k_batch_stride, int64_t k_token_stride, int64_t k_head_stride,
                                    int64_t table_batch_stride, int64_t table_token_stride, int tables_f32,
                                    int inverse, int dtype, void* stream) {
  if (!is_flag(inverse)) return kBadFlag;
  Call c = {};
  c.a.heads_of[0] = {q, q_batch_stride, q_token_stride, q_head_stride, q, q_batch_stride, q_token_stride, q_head_stride, nullptr};
  c.a.heads_of[1] = {k, k_batch_stride, k_token_stride, k_head_stride, k, k_batch_stride, k_token_stride, k_head_stride, nullptr};
  c.a.cos = cos, c.a.sin = sin;
  c.a.table_batch = table_batch_stride, c.a.table_token = table_token_stride, c.a.tables_f32 = tables_f32;
  c.batch = batch, c.tokens = tokens, c.q_heads = q_heads, c.k_heads = k_heads;
  c.head_dim = head_dim, c.rotary_dim = rotary_dim;
  c.type = dtype, c.in_place = true, c.inverse = inverse != 0, c.stream = static_cast<cudaStream_t>(stream);
  return launch(c);
}

// The rotation of x * rsqrt(mean(x^2) + eps) * (weight + weight_offset), the mean over each head: q_weight and k_weight
// are [head_dim], or null for 1. The norm is of the whole head, also where only rotary_dim of it is rotated.
// round_first: see RopeArguments; all else is fp32 up to the one rounding at the end. The rest as rope_launch.
extern "C" int qk_norm_rope_launch(void* q_out, void* k_out, const void* q, const void* k, const void* q_weight,
                                   const void* k_weight, const void* cos, const void* sin, int64_t batch,
                                   int64_t tokens, int64_t q_heads, int64_t k_heads, int64_t head_dim,
                                   int64_t rotary_dim, int64_t q_out_batch_stride, int64_t q_out_token_stride,
                                   int64_t q_out_head_stride, int64_t k_out_batch_stride, int64_t k_out_token_stride,
                                   int64_t k_out_head_stride, int64_t q_batch_stride, int64_t q_token_stride,
                                   int64_t q_head_stride, int64_t k_batch_stride, int64_t k_token_stride,
                                   int64_t k_head_stride, int64_t table_batch_stride, int64_t table_token_stride,
                                   float eps, float weight_offset, int round_first, int tables_f32, int dtype,
                                   void* stream) {
  Call c = {};
  c.a.heads_of[0] = {q, q_batch_stride, q_token_stride, q_head_stride,
                     q_out, q_out_batch_stride, q_out_token_stride, q_out_head_stride, q_weight};
  c.a.heads_of[1] = {k, k_batch_stride, k_token_stride, k_head_stride,
                     k_out, k_out_batch_stride, k_out_token_stride, k_out_head_stride, k_weight};
  c.a.cos = cos, c.a.sin = sin;
  c.a.table_batch = table_batch_stride, c.a.table_token = table_token_stride, c.a.tables_f32 = tables_f32;
  c.a.eps = eps, c.a.weight_offset = weight_offset, c.a.round_first = round_first;
  c.batch = batch, c.tokens = tokens, c.q_heads = q_heads, c.k_heads = k_heads;
  c.head_dim = head_dim, c.rotary_dim = rotary_dim;
  c.type = dtype, c.norm = true, c.stream = static_cast<cudaStream_t>(stream);
  return launch(c);
}

// The same, with q and k normalised and rotated where they are.
extern "C" int qk_norm_rope_in_place_launch(void* q, void* k, const void* q_weight, const void* k_weight,
                                            const void* cos, const void* sin, int64_t batch, int64_t tokens,
                                            int64_t q_heads, int64_t k_heads, int64_t head_dim, int64_t rotary_dim,
                                            int64_t q_batch_stride, int64_t q_token_stride, int64_t q_head_stride,
                                            int64_t k_batch_stride, int64_t k_token_stride, int64_t k_head_stride,
                                            int64_t table_batch_stride, int64_t table_token_stride, float eps,
                                            float weight_offset, int round_first, int tables_f32, int dtype,
                                            void* stream) {
  return qk_norm_rope_launch(q, k, q, k, q_weight, k_weight, cos, sin, batch, tokens, q_heads, k_heads, head_dim,
                             rotary_dim, q_batch_stride, q_token_stride, q_head_stride, k_batch_stride, k_token_stride,
                             k_head_stride, q_batch_stride, q_token_stride, q_head_stride, k_batch_stride,
                             k_token_stride, k_head_stride, table_batch_stride, table_token_stride, eps, weight_offset,
                             round_first, tables_f32, dtype, stream);
}

// What a launcher's return value means.
extern "C" const char* rope_error(int code) {
  switch (code) {
    case kNegativeSize: return "a size must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "only a weight may be a null pointer when there are elements";
    case kNegativeStride: return "a stride must not be negative";
    case kBadEps: return "eps must be finite and not negative";
    case kBadFlag: return "inverse, round_first and tables_f32 must be 0 or 1";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "sizes times strides are more than 64-bit addresses can tell, or heads or head_dim over 2^29";
    case kNoCode: return "the code was compiled for an architecture before sm_75";
    case kBadRotaryDim: return "rotary_dim must be even, not negative and at most head_dim";
    case kOverlap: return "the elements of an output overlap";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace rope
