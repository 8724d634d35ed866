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

  RopeArguments a = {};
  a.heads_of[0] = {q, q_out, q_weight, tokens * q_token_stride, q_token_stride, head_dim,
                   tokens * q_heads * head_dim, q_heads * head_dim, head_dim, 0};
  a.heads_of[1] = {k, k_out, k_weight, tokens * k_token_stride, k_token_stride, head_dim,
                   tokens * k_heads * head_dim, k_heads * head_dim, head_dim, static_cast<int>(q_heads)};
  a.cos = cos, a.sin = sin, a.table_batch = table_batch_stride, a.table_token = table_token_stride;
  a.tables_f32 = tables_f32 != 0 || dtype == kF32;
  a.tokens = static_cast<int>(tokens), a.q_heads = static_cast<int>(q_heads), a.heads = static_cast<int>(heads);
  a.packs = static_cast<int>(head_dim / elements), a.half = static_cast<int>(half / elements);
  a.slots = static_cast<int>(slots), a.first = 0, a.across = a.half;
  a.inverse_head_dim = 1.0f / static_cast<float>(head_dim);
  a.eps = eps, a.weight_offset = weight_offset, a.round_first = round_first;

  // A block is (lanes of a head, heads, tokens): the heads of a token, or a part of them, or those of several tokens.
  int lanes = 1;
  while (lanes < slots) lanes *= 2;
  const int most = 160 / lanes, in_warp = 32 / lanes;
  int heads_a_block = heads < most ? static_cast<int>(heads) : most, tokens_a_block = most / heads_a_block;
  if (tokens_a_block > 64) tokens_a_block = 64;  // a block's third dimension has no more
  // The norm's shuffles need whole warps: fewer tokens, else heads that are not there.
  while (tokens_a_block > 1 && lanes * heads_a_block * tokens_a_block % 32 != 0) --tokens_a_block;
  if (lanes * heads_a_block * tokens_a_block % 32 != 0) {
    heads_a_block = (heads_a_block + in_warp - 1) / in_warp * in_warp;
  }
  const int64_t groups = (tokens + tokens_a_block - 1) / tokens_a_block;
  if (groups > 65535) return kTooLarge;  // gridDim.y has no more: cut the tokens into several launches
  const dim3 grid(static_cast<unsigned>((heads + heads_a_block - 1) / heads_a_block), static_cast<unsigned>(groups),
                  static_cast<unsigned>(batch));
  const Kernel kernel = dtype == kF32   ? kernel_of<F32, F32>(norm != 0)
                        : dtype == kF16 ? kernel_of<F16>(norm != 0, tables_f32 != 0)
                                        : kernel_of<BF16>(norm != 0, tables_f32 != 0);
  kernel<<<grid, dim3(lanes, heads_a_block, tokens_a_block), 0, static_cast<cudaStream_t>(stream)>>>(a);
  return cudaGetLastError();
}

}  // namespace rope
