// What a launcher hands to a kernel, the same for every element type.
#pragma once
#include <cstdint>

#include "division.h"

namespace adaln {
using namespace common;

struct Arguments {
  void* out;        // normalised and modulated
  void* sum;        // h + x * gate
  const void* x;
  const void* h;    // what x * gate is added to
  // One row each, null where there is none.
  const void *weight, *bias;
  const void *scale_table, *shift_table, *gate_table;
  // One row for every rows_per_modulation rows of x, null where there is none.
  const void *scale, *shift, *gate;
  int64_t width;
  int64_t out_stride, sum_stride, x_stride, h_stride;  // elements from row to row
  int64_t scale_stride, shift_stride, gate_stride;
  uint32_t rows;                // of this launch
  WideDivisor rows_per_modulation;
  // adaln_groups, adaln_uniform, adaln_phases, adaln_persistent: how many rows have a modulation in common, how many blocks these
  // are, and the divisor by that.
  uint32_t rows_of_modulation, blocks_of_modulation;
  WideDivisor blocks_per_modulation;
  uint32_t sms;                 // of the device; adaln_unaligned: how many blocks it has at a time
  uint32_t phase_bits;          // adaln_phases: every 2^phase_bits-th row begins at the same place between multiples of 16
  uint32_t packs;               // accesses a row, or of this launch (gate_residual_packs)
  WideDivisor packs_per_row;        // gate_residual_packs
  float one;                    // what scale is added to: 1, or 0 where scale is a weight
  float inverse_width;          // 1 / width
  float eps;
  int row_in_shared;            // adaln_wide_rows: there is shared memory for a row
  int layer;                    // 1: LayerNorm, 0: RMSNorm
  int row_threads;              // adaln_persistent: that share a row, whole warps
};

}  // namespace adaln
