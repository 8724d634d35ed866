#include <cuda_runtime.h>

#include <cstdint>

#include "square.cuh"

__global__ void squared_relu_kernel(float* out, const float* x, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) out[i] = squared_relu_of(x[i]);
}

extern "C" int squared_relu_launch(void* out, const void* x, int64_t count, void* stream) {
  if (count == 0) return cudaSuccess;
  const int64_t blocks = (count + 255) / 256;
  squared_relu_kernel<<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<float*>(out), static_cast<const float*>(x), count);
  return cudaGetLastError();
}
