// The launcher: it checks every argument, picks a kernel and launches it.
//
// Nothing here waits for the device.
#include <cuda_runtime.h>

#include <cstdint>

#include "arguments.h"
#include "kernels.h"
#include "launcher.h"
#include "tile.h"

namespace attention {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kBadOption = 10005,
  kMisaligned = 10006,
  kTooLarge = 10007,
  kBadHeadDim = 10008,
  kBadHeads = 10009,
  kBadScale = 10010,
};

enum Causal : int { kNone = 0, kTopLeft = 1, kBottomRight = 2 };

// Numbers of tokens are 32-bit in the kernel, and sums of two of them are as well.
constexpr int64_t kMostTokens = 1000000000;
constexpr float kLog2E = 1.44269504f;
// K and V of the heads that take turns, which are to stay in L2.
constexpr int64_t kSetBytes = 32 << 20;

// A tensor as a caller passes it.
struct Tensor {
  const void* data;
  int64_t batch_stride, token_stride, head_stride;
};

// How many of it there are.
struct Sizes {
  int64_t batch, tokens, heads, head_dim;
};

// 0, or why this tensor is refused.
int check(const Tensor& t, const Sizes& of, bool written) {
  const int64_t sizes[] = {of.batch, of.tokens, of.heads};
  const int64_t strides[] = {t.batch_stride, t.token_stride, t.head_stride};
  if (of.batch == 0 || of.tokens == 0 || of.heads == 0) return 0;
  int64_t last = of.head_dim;
  for (int i = 0; i < 3; ++i) {
    if (sizes[i] == 1) continue;  // there is no next one, and the stride may be anything
    // What is read may be the same for many, with a stride of 0.
    if (strides[i] < (written ? of.head_dim : 0)) return kStrideTooSmall;
    if (strides[i] % 8 != 0) return kMisaligned;
    int64_t way = 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &way) || __builtin_add_overflow(last, way, &last)) {
      return kTooLarge;
    }
  }
  // Between tokens a stride is 32-bit in the kernel: registers are dear there.
  if (last > INT64_MAX / 4 || (of.tokens > 1 && t.token_stride > INT32_MAX)) return kTooLarge;
  if (t.data == nullptr) return kNullPointer;
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0 ? 0 : kMisaligned;
}

// For arguments that are right. What stands for one token or one head is not used.
Rows rows_of(const Tensor& t, const Sizes& of) {
  return {const_cast<void*>(t.data), of.batch > 1 ? t.batch_stride : 0, of.heads > 1 ? t.head_stride : 0,
          of.tokens > 1 ? static_cast<int>(t.token_stride) : 0};
}

// How many heads take turns, the tiles that see the most keys first.
unsigned heads_of_set(const AttentionArguments& a, int64_t head_dim) {
  const int64_t bytes = 2 * 2 * head_dim * a.tokens_k;  // of one head's keys and values
  if (bytes == 0) return a.all_heads;
  const int64_t heads = (bytes < kSetBytes ? kSetBytes / bytes : 1) * a.heads_per_kv_head;
  return heads < a.all_heads ? static_cast<unsigned>(heads) : a.all_heads;
}

// Of a head_dim that there is a kernel for.
template <int kDim>
int launch(const void* kernel, AttentionArguments a, unsigned blocks, int groups, cudaStream_t stream) {
  // More than 48 KB has to be asked for. It is no work for the device, and cheap.
  const int bytes = Tile<kDim>::shared_bytes(groups);
  const auto attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  if (const cudaError_t error = cleared(cudaFuncSetAttribute(kernel, attribute, bytes))) return error;
  void* parameters[] = {&a};
  return cleared(cudaLaunchKernel(kernel, dim3(blocks), dim3(kThreads, groups), parameters, bytes, stream));
}

}  // namespace

// o [batch, tokens_q, heads, head_dim] = softmax(scale * q k^T) v, each head for itself, for q as o, and k and v
// [batch, tokens_k, kv_heads, head_dim]. heads is a multiple of kv_heads: query head h goes with kv head
// h / (heads / kv_heads). lse [batch, heads, tokens_q] in f32, or null: the logarithm of the softmax's divisor.
// head_dim is 64 or 128. The elements of a head lie side by side; the strides of batch, token and head are in
// elements, so that [batch, heads, tokens, head_dim] is another choice of strides. Pointers are multiples of 16 bytes,
// strides of 8 elements. o overlaps nothing.
// causal: 0 every query sees every key; 1 query i sees the keys 0 to i, as torch's is_causal; 2 the last query sees all
// keys, and those before it each one less, as in FlashAttention and with a KV cache. A query that sees no key gives
// zeros, and -inf as lse. scale is positive. P is rounded to T before it is multiplied by V; sums are fp32.
// dtype: 1 f16, 2 bf16. Returns 0, a cudaError_t, or a code that attention_error explains; with such a code nothing was
// launched. An empty o launches nothing and returns 0.
extern "C" int attention_launch(void* o, void* lse, const void* q, const void* k, const void* v, int64_t batch,
                                int64_t tokens_q, int64_t tokens_k, int64_t heads, int64_t kv_heads, int64_t head_dim,
                                int64_t o_batch_stride, int64_t o_token_stride, int64_t o_head_stride,
                                int64_t q_batch_stride, int64_t q_token_stride, int64_t q_head_stride,
                                int64_t k_batch_stride, int64_t k_token_stride, int64_t k_head_stride,
                                int64_t v_batch_stride, int64_t v_token_stride, int64_t v_head_stride, float scale,
                                int causal, int dtype, void* stream) {
  if (dtype != kF16 && dtype != kBF16) return kUnknownType;
  if (batch < 0 || tokens_q < 0 || tokens_k < 0 || heads < 0 || kv_heads < 0) return kNegativeSize;
  if (head_dim != 64 && head_dim != 128) return kBadHeadDim;
  if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0) return kBadHeads;
  if (causal != kNone && causal != kTopLeft && causal != kBottomRight) return kBadOption;
  if (!(scale > 0.0f && scale * kLog2E <= 3.0e38f)) return kBadScale;
  if (tokens_q > kMostTokens || tokens_k > kMostTokens) return kTooLarge;
  const Sizes of_queries = {batch, tokens_q, heads, head_dim}, of_keys = {batch, tokens_k, kv_heads, head_dim};
  const Tensor to = {o, o_batch_stride, o_token_stride, o_head_stride};
  const Tensor queries = {q, q_batch_stride, q_token_stride, q_head_stride};
  const Tensor key = {k, k_batch_stride, k_token_stride, k_head_stride};
  const Tensor value = {v, v_batch_stride, v_token_stride, v_head_stride};
  if (const int error = check(to, of_queries, true)) return error;
  if (const int error = check(queries, of_queries, false)) return error;
  if (const int error = check(key, of_keys, false)) return error;
  if (const int error = check(value, of_keys, false)) return error;
  if (reinterpret_cast<uintptr_t>(lse) % 4 != 0) return kMisaligned;
  if (batch == 0 || tokens_q == 0 || heads == 0) return cudaSuccess;

  const int64_t query_tiles = (tokens_q + kQueries - 1) / kQueries;
  int64_t blocks = 0;
  if (batch > INT32_MAX || __builtin_mul_overflow(query_tiles * batch, heads, &blocks) || blocks > INT32_MAX) {
    return kTooLarge;  // the first product fits: both factors are below 2^31
  }
  const int64_t diagonal = causal == kNone ? tokens_k : causal == kTopLeft ? 0 : tokens_k - tokens_q;
  AttentionArguments a = {};
  a.o = rows_of(to, of_queries), a.q = rows_of(queries, of_queries), a.lse = static_cast<float*>(lse);
  a.k = rows_of(key, of_keys), a.v = rows_of(value, of_keys);
  a.tokens_q = static_cast<int>(tokens_q), a.tokens_k = static_cast<int>(tokens_k);
  a.heads = static_cast<unsigned>(heads), a.heads_per_kv_head = static_cast<int>(heads / kv_heads);
  a.all_heads = static_cast<unsigned>(batch * heads), a.set_heads = causal == kNone ? 1 : heads_of_set(a, head_dim);
  a.query_tiles = static_cast<unsigned>(query_tiles), a.diagonal = static_cast<int>(diagonal);
  a.scale_log2 = scale * kLog2E;
  const auto kernel_of = dtype == kF16 ? attention_kernel_f16 : attention_kernel_bf16;
  const void* kernel = kernel_of(static_cast<int>(head_dim), 1);
  int arch = 0, groups = 1;
  if (const cudaError_t error = code_arch(kernel, arch)) return error;
  if (causal != kNone && blocks < kFewTiles && arch <= kLastOfTwo) {
    groups = 2, kernel = kernel_of(static_cast<int>(head_dim), groups);
  }
  const auto launch_kernel = head_dim == 64 ? launch<64> : launch<128>;
  return launch_kernel(kernel, a, static_cast<unsigned>(blocks), groups, static_cast<cudaStream_t>(stream));
}

// What a code says. Never null; lives as long as the program.
extern "C" const char* attention_error(int code) {
  switch (code) {
    case kNegativeSize: return "batch, tokens and heads must not be negative";
    case kUnknownType: return "dtype must be 1 (f16) or 2 (bf16)";
    case kNullPointer: return "no tensor but lse may be a null pointer when it has elements";
    case kStrideTooSmall: return "strides must not be negative, and those of o at least head_dim";
    case kBadOption: return "causal must be 0 (none), 1 (query i sees keys 0 to i) or 2 (the last query sees all keys)";
    case kMisaligned: return "pointers must be multiples of 16 bytes (lse: 4), and strides of 8 elements";
    case kTooLarge: return "more than 10^9 tokens, 2^31 blocks of 128 queries, or what 64-bit addresses can tell";
    case kBadHeadDim: return "head_dim must be 64 or 128";
    case kBadHeads: return "heads must be a multiple of kv_heads";
    case kBadScale: return "scale must be positive and finite";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace attention
