#pragma once

template <typename T>
__global__ void scale_kernel(T* out, const T* x, float factor, long n) {
  const long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = static_cast<T>(static_cast<float>(x[i]) * factor);
}
