// What a launcher hands to a kernel, the same for every element type.
#pragma once
#include <cstdint>

#include "division.h"

namespace rope {

// The heads of q, or those of k: [batch, tokens, heads, head_dim], with strides in elements.
struct Heads {
  const void* in;
  int64_t in_batch, in_token, in_head;
  void* out;
  int64_t out_batch, out_token, out_head;
  const void* weight;  // of the norm; null: 1
};

// The same with strides in accesses of 16 bytes ("packs"), each below 2^31: an address takes a third of the instructions.
struct HeadsInPacks {
  const void* in;
  uint32_t in_token, in_head;
  void* out;
  uint32_t out_token, out_head;
  const void* weight;
  uint32_t in_batch, out_batch;
};

// A launch is cut into rows: a head of a token, or the heads of it that a thread has. Of 2^token_bits neighbouring tokens
// the first row comes first, then the second.
//
// The work on a head is counted in accesses. Slot i < half is a pair that is rotated, packs i and half + i of a head; each
// slot behind is one pack that is not rotated.
//
// The order is that of their use: the first read of a line of constant memory misses, and in a small launch nearly every
// block is its SM's first. So what the address of the first load takes lies in few lines.
struct RopeArguments {
  int rows_in_warp;    // whole ones: 32 / lanes
  uint32_t lane_part;  // lane * lane_part / 2^16, rounded down, is lane / lanes for the 32 lanes of a warp
  int lanes;           // of a row
  int token_bits;
  common::WideDivisor by_rows_of_token;
  int rows_of_token;
  int tokens;
  int q_heads;
  int half;    // packs of half the rotated part
  int first;   // where the pairs' first packs begin: 0, or half for the inverse, which rotates the other way round
  int across;  // from a pair's first pack to its second: half, or -half for the inverse

  HeadsInPacks packs_of[2];  // q, k: for rope_heads
  const void* cos;
  const void* sin;
  uint32_t table_batch_packs, table_token_packs;  // strides of 16 bytes, for rope_heads

  // Where half is odd, one sector of 32 bytes has a first pack, of slot split_first, and a second one, of slot
  // split_second. One more store writes both, since memory takes longer for parts of sectors. -1: none.
  int split_first, split_second;
  float inverse_head_dim;  // 1 / head_dim
  float eps;
  float weight_offset;
  int round_first;  // round norm(x) to T before it is multiplied by weight, as transformers' Llama and Qwen modules do
  int tables_f32;   // 1: cos and sin are fp32, else of the element type

  // For rope_heads_twice.
  int packs;          // of a head
  int slots;          // packs - half, or half where the rest stays as it is
  Heads heads_of[2];  // q, k
  int64_t table_batch, table_token;  // strides in elements; a table for all of the batch has table_batch 0
};

}  // namespace rope
