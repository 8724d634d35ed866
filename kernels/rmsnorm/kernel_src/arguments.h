// What a launcher hands to a kernel, the same for every element type.
#pragma once
#include <cstdint>

namespace rmsnorm {

struct RowArguments {
  void* out;
  void* sum;             // null without a residual add
  const void* x;
  const void* residual;  // null without a residual add
  const void* weight;    // null: 1
  int64_t rows, width;
  int64_t packs;  // accesses a row
  int64_t out_stride, sum_stride, x_stride, residual_stride;  // elements from row to row
  float inverse_width;  // 1 / width
  float eps;
  float weight_offset;
  int ahead;       // of rms_norm_unaligned: rows from that of a block to the one which its SM takes next
  int round_first;  // round norm(x) to T before it is multiplied by weight, as transformers' Llama and Qwen modules do
};

}  // namespace rmsnorm
