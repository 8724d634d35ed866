// What a launcher hands to a kernel, the same for every element type.
#pragma once
#include "division.h"

namespace geglu {
using namespace common;

struct GatedArguments {
  const void *value, *gate;
  const void* dy;  // null in the forward direction
  void* out;       // null in the backward direction
  void *d_value, *d_gate;
  // Packs from row to row.
  int64_t value_stride, gate_stride, dy_stride, out_stride, d_value_stride, d_gate_stride;
  // packs: of one tensor, which spans fewer than 2^31 elements with what lies between its rows. tail: elements behind
  // the last pack of a single row.
  uint32_t packs, packs_per_row, tail;
  Divisor by_row;
};

}  // namespace geglu
