// What is computed, an element at a time. This is the file to exchange.
#pragma once
#include "gelu.cuh"

namespace elementwise {

// How many tensors have an element for each element of out, and how many one for each column.
constexpr int kInputs = 2;   // residual, x
constexpr int kVectors = 2;  // bias, scale

enum Gelu : int { kExact, kTanh };

// out = residual + scale * gelu(x + bias), all in fp32: it is rounded once, when it is stored.
template <Gelu G>
struct BiasGeluScaleResidual {
  __device__ __forceinline__ float operator()(const float (&input)[kInputs], const float (&vector)[kVectors]) const {
    const float biased = input[1] + vector[0];
    return fmaf(vector[1], G == kTanh ? gelu_tanh(biased) : gelu_exact(biased), input[0]);
  }
};

}  // namespace elementwise
