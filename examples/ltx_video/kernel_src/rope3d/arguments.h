// What the launchers hand to the kernels, the same for every element type.
#pragma once
#include <cstdint>

#include "division.h"

namespace rope3d {
using namespace common;

// q or k.
struct TensorArguments {
  void* out;
  const void* x;
  const void* weight;           // of the norm; null: 1
  int64_t out_stride, x_stride;  // elements from token to token
};

// Tokens lie in the order (batch, frame, row, column). The table holds pairs (cos, sin): of each batch element the
// positions of the frames, of the rows and of the columns, and of each position `entries` pairs; see rope3d_table.cu.
struct RotaryArguments {
  TensorArguments tensor[2];  // q and k
  const void* table;
  uint32_t table_stride;   // pairs from a batch element's table to the next; 0: they share one
  uint32_t axis_start[3];  // the pair with which the positions of each axis begin
  uint32_t entries;        // pairs a position: one (1, 0), then the frequencies
  uint32_t first_slot;     // the slot of a token's first pair: slot s has axis s % 3 and entry s / 3, pads entry 0
  uint32_t tokens;
  uint32_t size[3];     // frames, rows and columns
  Divisor by_size[3];
  int dim;            // elements a token
  float sin_sign;     // -1: the inverse rotation
  float inverse_dim;  // 1 / dim
  float eps;
  int round_first;  // round the norm's output to T before it is rotated, as a norm module and a rotation apart do
};

struct TableArguments {
  void* table;
  const void* coords;
  const void* frequencies;  // null: theta ** linspace(0, 1, count) * pi / 2
  int64_t positions;        // of all tables
  int64_t count;            // frequencies
  float step;               // of the linspace
  double log2_theta;
};

}  // namespace rope3d
