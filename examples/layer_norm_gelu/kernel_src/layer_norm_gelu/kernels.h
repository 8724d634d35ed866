// The kernels of each element type, one unit a type.
#pragma once
#include <cstdint>

#include "arguments.h"

struct Kernel {
  void (*function)(Arguments);
  int threads, rows;  // a block
};

// whole: rows are packs of 16 bytes, from aligned addresses on.
Kernel layer_norm_gelu_kernel_f32(int64_t rows, int64_t width, bool whole, bool tanh);
Kernel layer_norm_gelu_kernel_f16(int64_t rows, int64_t width, bool whole, bool tanh);
Kernel layer_norm_gelu_kernel_bf16(int64_t rows, int64_t width, bool whole, bool tanh);
