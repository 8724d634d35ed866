// out = x * relu6(x + 3) / 6.
#include <cuda_runtime.h>

#include <cstdint>

__global__ void hardswish_kernel(float* out, const float* x, int64_t count) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const float v = x[i];
    out[i] = v * fminf(fmaxf(v + 3.0f, 0.0f), 6.0f) / 6.0f;
  }
}

extern "C" int hardswish_launch(void* out, const void* x, int64_t count, cudaStream_t stream) {
  if (count < 0) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  const int64_t blocks = (count + 255) / 256;
  hardswish_kernel<<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), 256, 0, stream>>>(
      static_cast<float*>(out), static_cast<const float*>(x), count);
  return cudaGetLastError();
}
