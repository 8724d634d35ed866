#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void row_amax_kernel(float* out, const float* x, int64_t rows, int64_t width) {
  __shared__ float largest[8];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float most = 0.0f;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, fabsf(x[row * width + i]));
    for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, d));
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
    __syncthreads();
    for (int w = 0; w < 8; ++w) most = fmaxf(most, largest[w]);
    if (threadIdx.x == 0) out[row] = most;
    __syncthreads();
  }
}

__global__ void scale_rows_kernel(float* x, const float* scale, int64_t count, int64_t width) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) x[i] *= scale[i / width];
}

unsigned blocks_for(int64_t wanted) { return static_cast<unsigned>(wanted < 65536 ? wanted : 65536); }

}  // namespace

extern "C" int row_amax_launch(void* out, const void* x, int64_t rows, int64_t width, void* stream) {
  if (rows == 0) return cudaSuccess;
  row_amax_kernel<<<blocks_for(rows), 256, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<float*>(out),
                                                                                   static_cast<const float*>(x), rows, width);
  return cudaGetLastError();
}

extern "C" int scale_rows_launch(void* x, const void* scale, int64_t rows, int64_t width, void* stream) {
  if (rows == 0 || width == 0) return cudaSuccess;
  scale_rows_kernel<<<blocks_for((rows * width + 255) / 256), 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<float*>(x), static_cast<const float*>(scale), rows * width, width);
  return cudaGetLastError();
}
