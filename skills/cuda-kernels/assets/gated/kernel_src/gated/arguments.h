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
  // Elements from row to row.
  int64_t value_stride, gate_stride, dy_stride, out_stride, d_value_stride, d_gate_stride;
  uint32_t packs, packs_per_row;  // packs: of one tensor, fewer than 2^31
  Divisor by_row;
};

}  // namespace geglu
