// The kernels for one element type.
#pragma once
#include "attention.cuh"
#include "kernels.h"

namespace attention {

template <typename T>
const void* find_kernel(int head_dim, int groups) {
  const bool one = groups == 1;
  switch (head_dim) {
    case 64: return reinterpret_cast<const void*>(one ? attention_forward<T, 64, 1> : attention_forward<T, 64, 2>);
    case 128: return reinterpret_cast<const void*>(one ? attention_forward<T, 128, 1> : attention_forward<T, 128, 2>);
    default: return nullptr;
  }
}

}  // namespace attention
