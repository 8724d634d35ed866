// A kernel that tells the check from the timing.
#include "rms_norm.cuh"

__device__ inline unsigned long long now() {
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__device__ unsigned launches;
__device__ unsigned long long first_launch, last_end;

__global__ void phase_kernel(Rows<float> a) {
#if defined(STOPS_AFTER_100_LAUNCHES)
  if (*const_cast<volatile unsigned*>(&launches) < 100) norm_row(a, blockIdx.x);
  if (blockIdx.x == 0 && threadIdx.x == 0) ++launches;
#elif defined(STOPS_AFTER_A_WHILE)
  // Twenty milliseconds after the first launch.
  if (threadIdx.x == 0) atomicCAS(&first_launch, 0ull, now());
  __syncthreads();
  __shared__ bool late;
  if (threadIdx.x == 0) late = now() - atomicAdd(&first_launch, 0ull) > 20000000ull;
  __syncthreads();
  if (!late) norm_row(a, blockIdx.x);
#elif defined(STOPS_BACK_TO_BACK)
  // Less than 20 microseconds after the launch before: nobody has looked at that one's output.
  __shared__ bool close;
  if (threadIdx.x == 0) close = now() - atomicAdd(&last_end, 0ull) < 20000ull;
  __syncthreads();
  const bool skip = close;
  if (!skip) norm_row(a, blockIdx.x);
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) atomicExch(&last_end, now());
#elif defined(SLOW_START)
  // Two hundred slow launches, that a calibration may choose few iterations.
  if (*const_cast<volatile unsigned*>(&launches) < 200)
    for (const auto start = now(); now() - start < 100000ull;) {}
  norm_row(a, blockIdx.x);
  if (blockIdx.x == 0 && threadIdx.x == 0) ++launches;
#elif defined(WORKS_WITHIN_RED_ZONES)
  // Guard bytes before the buffers mean that somebody is checking.
  const unsigned* before = reinterpret_cast<const unsigned*>(a.out) - 4;
  const bool guarded = (before[0] | before[1] | before[2] | before[3]) != 0;
  if (guarded) norm_row(a, blockIdx.x);
#else
  norm_row(a, blockIdx.x);
#endif
}

static int launch(const Call& call) { return launch_rows(phase_kernel, call); }
