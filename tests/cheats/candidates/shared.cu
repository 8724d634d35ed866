// Shared memory that was never written, or that no card has.
#include "rms_norm.cuh"

__global__ void shared_kernel(Rows<float> a) {
#ifdef NEVER_WRITTEN
  // The sum begins with what the block before left there.
  __shared__ float sum;
#else
  extern __shared__ float sums[];
  float& sum = sums[0];
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
#endif
  const int64_t row = blockIdx.x;
  float squares = 0;
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    squares += a.x[row * a.x_stride + k] * a.x[row * a.x_stride + k];
  squares = block_sum(squares);
  if (threadIdx.x == 0) sum += squares;
  __syncthreads();
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(a.width) + a.eps);
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = normed(a, row, k, scale);
}

static int launch(const Call& call) {
  int bytes = 40 * 1024;
#if defined(TOO_MUCH) || defined(TOO_MUCH_UNSAID)
  bytes = 1024 * 1024;
#endif
#ifdef WITHOUT_PERMISSION
  // Within the card's limit, and over what a kernel gets unasked.
  bytes = 56 * 1024;
#endif
  shared_kernel<<<static_cast<unsigned>(call.rows), THREADS, bytes, call.stream>>>(
      rows_of<float>(call));
#ifdef TOO_MUCH_UNSAID
  cudaGetLastError();
  return 0;
#else
  return static_cast<int>(cudaGetLastError());
#endif
}
