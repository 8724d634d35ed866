// The kernels for one element type.
#pragma once
#include "attention.cuh"
#include "kernels.h"

// Not for other units: projects that are linked into one library have functions of these names.
namespace {

template <typename T>
const void* find_kernel(int head_dim) {
  switch (head_dim) {
    case 64: return reinterpret_cast<const void*>(attention_forward<T, 64>);
    case 128: return reinterpret_cast<const void*>(attention_forward<T, 128>);
    default: return nullptr;
  }
}

}  // namespace
