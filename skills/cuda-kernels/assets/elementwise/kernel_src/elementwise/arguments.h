// What the launcher hands to a kernel, the same for every element type.
#pragma once
#include "division.h"

namespace elementwise {
using namespace common;

template <int INPUTS, int VECTORS>
struct ElementwiseArguments {
  void* out;
  const void* input[INPUTS];    // [rows, width]
  const void* vector[VECTORS];  // [width]
  int64_t out_stride, input_stride[INPUTS];  // elements from row to row
  uint32_t packs, packs_per_row;             // packs: of one tensor
  Divisor by_row;
};

}  // namespace elementwise
