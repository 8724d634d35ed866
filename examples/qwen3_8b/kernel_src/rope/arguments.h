// What a launcher hands to a kernel, the same for every element type.
#pragma once
#include <cstdint>

#include "division.h"

namespace rope {

// The heads of q, or those of k: [batch, tokens, heads, head_dim], with strides in elements.
struct Heads {
  const void* in;
  void* out;
  const void* weight;  // of the norm; null: 1
  int64_t in_batch, in_token, in_head;
  int64_t out_batch, out_token, out_head;
  int before;  // heads that are counted before these
};

struct RopeArguments {
  Heads heads_of[2];  // q, k
  const void* cos;
  const void* sin;
  int64_t table_batch, table_token;  // strides in elements; a table for all of the batch has table_batch 0
  int tables_f32;                    // 1: cos and sin are fp32, else of the element type
  int tokens;
  int q_heads, heads;  // heads: q's and k's

  // The work on a head, counted in accesses ("packs"). Slot i < half is a pair that is rotated, packs i and half + i of
  // a head; each slot behind is one pack that is not rotated.
  int packs;   // of a head
  int half;    // of half the rotated part
  int slots;   // packs - half, or half where the rest stays as it is
  int first;   // where the pairs' first packs begin: 0, or half for the inverse, which rotates the other way round
  int across;  // from a pair's first pack to its second: half, or -half for the inverse

  // Where half is odd, one sector of 32 bytes has a first pack, of slot split_first, and a second one, of slot
  // split_second. One more store writes both, since memory takes longer for parts of sectors. -1: none.
  int split_first, split_second;

  // A launch is cut into rows: a head of a token, or the heads of it that a thread has. Of 2^token_bits neighbouring
  // tokens the first row comes first, then the second.
  int lanes;         // of a row
  int rows_in_warp;  // whole ones: 32 / lanes
  int rows_of_token;
  int token_bits;
  common::WideDivisor by_lanes, by_rows_of_token;

  float inverse_head_dim;  // 1 / head_dim
  float eps;
  float weight_offset;
  int round_first;  // round norm(x) to T before it is multiplied by weight, as transformers' Llama and Qwen modules do
};

}  // namespace rope
