// What the launcher hands to both kernels, the same for every element type.
#pragma once
#include <cstdint>

namespace column_sum {

struct ColumnSumArguments {
  const void* x;
  void* out;         // in the type of x, or null
  float* out_f32;    // or null
  float* partial;    // [groups, width]; null where one group has all rows, or a strip's groups are a cluster
  int64_t rows, width;
  int64_t stride;          // elements from row to row
  int64_t rows_per_group;
  int groups;
  int lanes;               // threads that share a row of a strip: a power of two up to 32
};

}  // namespace column_sum
