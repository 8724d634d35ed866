// What the launchers hand to the kernels, the same for every element type.
#pragma once
#include <cstdint>

namespace softmax {

struct SoftmaxArguments {
  void* out;
  const void* x;
  int64_t rows;
  int width;
  int64_t out_stride, x_stride;  // elements from row to row
  int whole;                     // rows begin at multiples of 16 bytes, and are whole numbers of them
  float log2_scale;              // scale * log2(e): the exponentials are powers of two
};

struct CrossEntropyArguments {
  float* loss;           // forward: one a row
  float* lse;            // forward: log of the sum of the row's exponentials
  void* dlogits;         // backward
  const void* logits;
  const int64_t* targets;
  const float* row_lse;  // backward: what the forward pass wrote to lse
  const float* dloss;    // backward
  int64_t rows;
  int classes;
  int pieces;  // backward: blocks that share a row
  int64_t dlogits_stride, logits_stride;
  int64_t ignore_index;
  float smoothing;  // of the labels, as torch's label_smoothing
  float share;      // backward: smoothing / classes
};

}  // namespace softmax
