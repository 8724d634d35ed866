// What a launcher hands to a kernel, the same for every element type.
#pragma once
#include <cstdint>

// Numbers of packs, of which a launch has fewer than 2^31. The quotient i / packs_per_row, without a division:
// (i * (2^32 + magic)) >> (32 + shift), right for every i below 2^32 (Granlund and Montgomery 1994).
struct Division {
  uint32_t magic, shift;
};

struct GatedArguments {
  const void *value, *gate;
  const void* dy;  // null in the forward direction
  void* out;       // null in the backward direction
  void *d_value, *d_gate;
  // Elements from row to row.
  int64_t value_stride, gate_stride, dy_stride, out_stride, d_value_stride, d_gate_stride;
  uint32_t packs, packs_per_row;  // packs: of one tensor
  Division by_row;
};
