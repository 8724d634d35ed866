// The launcher: rotate-half RoPE of q and k, alone or behind an RMSNorm of each head, for heads that are a whole number
// of 16-byte accesses. q_out may be q and k_out k where both are without gaps.
#include <cuda_runtime.h>

#include <cstdint>

#include "launcher.h"
#include "rope.cuh"

namespace rope {
namespace {

enum OwnErrorCode : int {
  kBadEps = 10005,
  kNotWholeAccesses = 10006,
  kTooLarge = 10007,
};

using Kernel = void (*)(RopeArguments);

// Registers at most, as in the measured table: 32 for the rotation alone, 40 with the norm.
template <typename T, typename TABLE>
Kernel kernel_of(bool norm) {
  constexpr int N = 16 / static_cast<int>(sizeof(T));
  return norm ? rope_heads<T, TABLE, N, 1, true, 40> : rope_heads<T, TABLE, N, 1, false, 32>;
}
template <typename T>
Kernel kernel_of(bool norm, bool tables_f32) {
  return tables_f32 ? kernel_of<T, F32>(norm) : kernel_of<T, T>(norm);
}

bool whole(const void* data, int64_t stride_bytes) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0;
}

}  // namespace

// q [batch, tokens, q_heads, head_dim] and k [.., k_heads, ..]: heads side by side, tokens a stride apart; the outputs
// are without gaps. cos and sin [batch or 1, tokens, >= rotary_dim / 2]: of the tensors' type, or fp32 with tables_f32;
// table_batch_stride is 0 where all of the batch share them. The first rotary_dim elements of a head are rotated.
// norm 1: each head is normalised before, q_weight and k_weight [head_dim] or null. dtype: 0 f32, 1 f16, 2 bf16.
extern "C" int rope_launch(void* q_out, void* k_out, const void* q, const void* k, const void* q_weight,
                           const void* k_weight, const void* cos, const void* sin, int64_t batch, int64_t tokens,
                           int64_t q_heads, int64_t k_heads, int64_t head_dim, int64_t rotary_dim,
                           int64_t q_token_stride, int64_t k_token_stride, int64_t table_batch_stride,
                           int64_t table_token_stride, int tables_f32, int norm, float eps, float weight_offset,
                           int round_first, int dtype, void* stream) {
  if (batch < 0 || tokens < 0 || q_heads < 0 || k_heads < 0 || head_dim < 0 || rotary_dim < 0) return kNegativeSize;
  if (dtype != kF32 && dtype != kF16 && dtype != kBF16) return kUnknownType;
  if (!(eps >= 0.0f && eps <= 3.402823466e38f)) return kBadEps;
  constexpr int64_t kMost = 1 << 20;
  if (q_heads > kMost || k_heads > kMost || head_dim > kMost || batch > 65535) return kTooLarge;
  const int64_t size = dtype == kF32 ? 4 : 2, table_size = tables_f32 != 0 ? 4 : size, elements = 16 / size;
  const int64_t heads = q_heads + k_heads, half = rotary_dim / 2;
  if (q_token_stride < q_heads * head_dim || k_token_stride < k_heads * head_dim || table_token_stride < half ||
      rotary_dim > head_dim) {
    return kStrideTooSmall;
  }
  if (batch == 0 || tokens == 0 || heads == 0 || head_dim == 0) return cudaSuccess;
  if ((q_heads > 0 && (q == nullptr || q_out == nullptr)) || (k_heads > 0 && (k == nullptr || k_out == nullptr)) ||
      (rotary_dim > 0 && (cos == nullptr || sin == nullptr))) {
    return kNullPointer;
  }
  const bool aligned = whole(q, q_token_stride * size) && whole(k, k_token_stride * size) && whole(q_out, 0) &&
                       whole(k_out, 0) && whole(q_weight, 0) && whole(k_weight, 0) &&
                       whole(cos, table_token_stride * table_size) && whole(sin, table_batch_stride * table_size);
  const int64_t slots = (head_dim - half) / elements;
  if (!aligned || head_dim % elements != 0 || rotary_dim % (2 * elements) != 0 || slots > kMostSlots) {
    return kNotWholeAccesses;
  }

  // Strides in accesses, of 31 bits; those of a dimension of size 1 do not count.
  bool fits = tokens <= (int64_t{1} << 30) / heads;
  const auto packs = [&](int64_t count, int64_t stride, int64_t in_pack) {
    fits = fits && (count <= 1 || stride / in_pack <= INT32_MAX);
    return count <= 1 ? 0u : static_cast<uint32_t>(stride / in_pack);
  };
  const auto heads_of = [&](const void* in, void* out, const void* weight, int64_t count, int64_t token_stride) {
    return HeadsInPacks{in, packs(tokens, token_stride, elements), packs(count, head_dim, elements),
                        out, packs(tokens, count * head_dim, elements), packs(count, head_dim, elements),
                        weight, packs(batch, tokens * token_stride, elements), packs(batch, tokens * count * head_dim, elements)};
  };
  RopeArguments a = {};
  a.packs_of[0] = heads_of(q, q_out, q_weight, q_heads, q_token_stride);
  a.packs_of[1] = heads_of(k, k_out, k_weight, k_heads, k_token_stride);
  a.cos = cos, a.sin = sin;
  a.table_batch_packs = packs(batch, table_batch_stride, 16 / table_size);
  a.table_token_packs = packs(tokens, table_token_stride, 16 / table_size);
  if (!fits) return kTooLarge;
  a.tables_f32 = tables_f32 != 0 || dtype == kF32;
  a.tokens = static_cast<int>(tokens), a.q_heads = static_cast<int>(q_heads);
  a.half = static_cast<int>(half / elements), a.first = 0, a.across = a.half;
  const bool split = a.half % 2 != 0 && a.half > 1;  // a sector of 32 bytes has an access of each half
  a.split_first = split ? a.half - 1 : -1, a.split_second = split ? 0 : -1;
  a.inverse_head_dim = 1.0f / static_cast<float>(head_dim);
  a.eps = eps, a.weight_offset = weight_offset, a.round_first = round_first;

  // A warp has as many heads as fit it whole.
  a.lanes = static_cast<int>(slots), a.rows_in_warp = 32 / a.lanes, a.lane_part = 65536 / a.lanes + 1;
  a.rows_of_token = static_cast<int>(heads), a.by_rows_of_token = common::WideDivisor(static_cast<uint32_t>(heads));
  const int64_t warps = (tokens * heads - 1) / a.rows_in_warp + 1, blocks = (warps - 1) / 4 + 1;
  const dim3 grid(static_cast<unsigned>(blocks), 1, static_cast<unsigned>(batch));
  const unsigned threads = static_cast<unsigned>((warps - 1) / blocks + 1) * 32;
  const Kernel kernel = dtype == kF32   ? kernel_of<F32, F32>(norm != 0)
                        : dtype == kF16 ? kernel_of<F16>(norm != 0, tables_f32 != 0)
                                        : kernel_of<BF16>(norm != 0, tables_f32 != 0);
  kernel<<<grid, threads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  return cudaGetLastError();
}

}  // namespace rope
