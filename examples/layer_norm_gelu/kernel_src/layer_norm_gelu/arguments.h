// What a launcher hands to a kernel, the same for every element type.
#pragma once
#include <cstdint>

struct Arguments {
  void* out;
  const void* x;
  const void* weight;  // null: 1
  const void* bias;    // null: 0
  int64_t rows, width;
  int64_t out_stride, x_stride;  // elements from row to row
  float inverse_width, eps;
};
