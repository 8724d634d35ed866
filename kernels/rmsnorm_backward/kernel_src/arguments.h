// What the launcher hands to its kernels, the same for every element type.
#pragma once
#include <cstdint>

namespace rmsnorm_backward {

struct Arguments {
  void* dx;
  const void* dy;
  const void* x;
  const void* weight;  // null: 1, and then weight_offset is 0
  float* partial;      // [blocks, width]: each block's sum of dy * xhat over its rows; null: nobody asks for dw
  int64_t rows, width;
  int64_t dx_stride, dy_stride, x_stride;  // elements from row to row
  int64_t step;                            // rows from a block's rows to those it goes on with
  int64_t dx_step, dy_step, x_step;        // as many, in elements
  float inverse_width;                     // 1 / width
  float eps;
  float weight_offset;
  int row_threads;                         // of a block's, that share a row
};

// dw = the sum of the first `blocks` rows of partial, into either or both.
struct WeightGradientArguments {
  void* dw;       // in T
  float* dw_f32;
  const float* partial;
  int64_t blocks, width;
};

}  // namespace rmsnorm_backward
