// out = cumsum(x) / sum(x) along the rows, fp32. A block takes a row at a time; a thread has a piece of it.
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kThreads = 256, kWarps = kThreads / 32, kMostBlocks = 128;

__global__ void __launch_bounds__(kThreads) cumulative_share_kernel(float* out, const float* x, int64_t rows, int64_t width) {
  __shared__ float sums[kWarps];
  __shared__ float total;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t piece = (width + kThreads - 1) / kThreads;
  const int64_t begin = min(static_cast<int64_t>(threadIdx.x) * piece, width), end = min(begin + piece, width);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* from = x + row * width;
    float own = 0.0f;
    for (int64_t i = begin; i < end; ++i) own += from[i];
    float scan = own;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const float below = __shfl_up_sync(0xffffffffu, scan, d);
      if (lane >= d) scan += below;
    }
    float before = __shfl_up_sync(0xffffffffu, scan, 1);  // not scan - own: that is NaN at an infinity
    if (lane == 0) before = 0.0f;
    if (lane == 31) sums[warp] = scan;
    __syncthreads();
    for (int w = 0; w < warp; ++w) before += sums[w];
    if (threadIdx.x == kThreads - 1) total = before + own;
    __syncthreads();  // all have the sums, so that the next row may write them, and the total is there
    const float share = 1.0f / total;
    for (int64_t i = begin; i < end; ++i) {
      before += from[i];
      out[row * width + i] = before * share;
    }
  }
}

extern "C" int cumulative_share_launch(void* out, const void* x, int64_t rows, int64_t width, cudaStream_t stream) {
  if (rows < 0 || width < 0) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
  cumulative_share_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(x), rows, width);
  return cudaGetLastError();
}
