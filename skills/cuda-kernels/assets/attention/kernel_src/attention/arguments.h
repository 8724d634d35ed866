// What the launcher hands to a kernel, the same for every element type.
#pragma once
#include <cstdint>

namespace attention {

// A tensor of batch x tokens x heads rows, each of head_dim elements side by side. Strides are in elements.
struct Rows {
  void* data;
  int64_t batch_stride, head_stride;
  int token_stride;
};

struct AttentionArguments {
  Rows o, q, k, v;
  float* lse;  // [batch, heads, tokens_q], or null
  int tokens_q, tokens_k;
  int heads_per_kv_head;
  // The heads of a batch, of all, and of a set, which take turns in the order of blocks. Unsigned, to divide in fewer
  // instructions.
  unsigned heads, all_heads, set_heads;
  unsigned query_tiles;  // of one head
  // Query i sees the keys 0 to i + diagonal.
  int diagonal;
  float scale_log2;  // scale * log2(e): exp(scale * s) = exp2(scale_log2 * s)
};

}  // namespace attention
