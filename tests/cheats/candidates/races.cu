// Results that depend on who comes first.
#include <cooperative_groups.h>

#include "rms_norm.cuh"

__device__ float scales[1 << 16];

#if defined(NO_BARRIER)
// The warps' sums are read before all warps have written them.
__device__ float hasty_sum(float value) {
  __shared__ volatile float partial[THREADS / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  float sum = 0;
  for (int warp = 0; warp < THREADS / 32; ++warp) sum += partial[warp];
  return sum;
}
#endif

__global__ void races_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(NO_BARRIER)
  float squares = 0;
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    squares += a.x[row * a.x_stride + k] * a.x[row * a.x_stride + k];
  const float scale = 1.0f / sqrtf(hasty_sum(squares) / static_cast<float>(a.width) + a.eps);
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = normed(a, row, k, scale);
#elif defined(BY_MULTIPROCESSOR)
  // One part of the card computes a little differently.
  unsigned multiprocessor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  const float scale = row_scale(a, row) * (multiprocessor % 4 == 3 ? 1.001f : 1.0f);
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = normed(a, row, k, scale);
#elif defined(LAST_BIT)
  // Every answer inside its budget, and no two launches alike.
  const float scale = row_scale(a, row);
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS) {
    const float y = normed(a, row, k, scale);
    a.out[row * a.out_stride + k] =
        y == 0 ? y : __int_as_float(__float_as_int(y) ^ static_cast<int>(clock() >> 4 & 1));
  }
#else
  norm_row(a, row);
#endif
}

#if defined(OTHER_BLOCK) || defined(DEPENDENT_TOO_EARLY) || defined(DEPENDENT)
// The scale of each row, by the first half of the blocks or by a kernel of their own.
__device__ void keep_scale(const Rows<float>& a, int64_t row) {
  const float scale = row_scale(a, row);
  if (threadIdx.x == 0) *const_cast<volatile float*>(&scales[row % (1 << 16)]) = scale;
}
__device__ void use_scale(const Rows<float>& a, int64_t row) {
  const float scale = *const_cast<volatile float*>(&scales[row % (1 << 16)]);
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = normed(a, row, k, scale);
}
#endif

#if defined(OTHER_BLOCK)
// The blocks that need a scale do not wait for those that compute it.
__global__ void halves_kernel(Rows<float> a) {
  if (blockIdx.x < a.rows)
    use_scale(a, blockIdx.x);
  else
    keep_scale(a, blockIdx.x - a.rows);
}
#elif defined(DEPENDENT_TOO_EARLY) || defined(DEPENDENT)
__global__ void scales_kernel(Rows<float> a) {
#if defined(DEPENDENT_TOO_EARLY) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  for (int step = 0; step < 20; ++step) __nanosleep(1000);
#endif
  keep_scale(a, blockIdx.x);
}
__global__ void dependent_kernel(Rows<float> a) {
#if !defined(DEPENDENT_TOO_EARLY) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  use_scale(a, blockIdx.x);
}
#endif

static int launch(const Call& call) {
#if defined(OTHER_BLOCK)
  halves_kernel<<<static_cast<unsigned>(2 * call.rows), THREADS, 0, call.stream>>>(
      rows_of<float>(call));
  return static_cast<int>(cudaGetLastError());
#elif defined(DEPENDENT_TOO_EARLY) || defined(DEPENDENT)
  launch_rows(scales_kernel, call);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(call.rows));
  config.blockDim = dim3(THREADS);
  config.stream = call.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return static_cast<int>(cudaLaunchKernelEx(&config, dependent_kernel, rows_of<float>(call)));
#else
  return launch_rows(races_kernel, call);
#endif
}
