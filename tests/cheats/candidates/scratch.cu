// Memory to work in, and what an earlier launch left there.
#include "rms_norm.cuh"

// One scale a row.
__global__ void scales_kernel(Rows<float> a) {
#if defined(NEEDS_ZEROS)
  // Sums into what should be zero, and is so only where somebody made it zero.
  float squares = 0;
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    squares += a.x[blockIdx.x * a.x_stride + k] * a.x[blockIdx.x * a.x_stride + k];
  squares = block_sum(squares);
  if (threadIdx.x == 0) a.scratch[blockIdx.x] += squares;
#elif defined(LAST_LAUNCH)
  // What looks like a scale is one, of the launch before.
  const float kept = a.scratch[blockIdx.x];
  __syncthreads();
  if (kept > 0 && kept < 1e6f) return;
  const float scale = row_scale(a, blockIdx.x);
  if (threadIdx.x == 0) a.scratch[blockIdx.x] = scale;
#else
  const float scale = row_scale(a, blockIdx.x);
  if (threadIdx.x == 0) a.scratch[blockIdx.x] = scale;
#endif
}

__global__ void apply_kernel(Rows<float> a) {
  float scale = a.scratch[blockIdx.x];
#if defined(NEEDS_ZEROS)
  scale = 1.0f / sqrtf(scale / static_cast<float>(a.width) + a.eps);
#endif
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[blockIdx.x * a.out_stride + k] = normed(a, blockIdx.x, k, scale);
}

static int launch(const Call& call) {
  const int failed = launch_rows(scales_kernel, call);
  return failed != 0 ? failed : launch_rows(apply_kernel, call);
}
