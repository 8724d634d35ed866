// The kernels for one element type.
#pragma once
#include "attention.cuh"
#include "kernels.h"

namespace attention {

template <typename T>
const void* find_kernel(int head_dim) {
  switch (head_dim) {
    case 64: return reinterpret_cast<const void*>(attention_forward<T, 64>);
    case 128: return reinterpret_cast<const void*>(attention_forward<T, 128>);
    default: return nullptr;
  }
}

}  // namespace attention
