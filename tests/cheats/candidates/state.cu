// What outlives a launch: device variables, and the heap of device code.
#include "rms_norm.cuh"

#if defined(STOPS_AFTER_MANY)
__device__ unsigned blocks;
#elif defined(ONCE_A_SLOT) || defined(KNOWS_THE_CONTENT)
struct Done {
  const void* out;
  unsigned sample;
};
__device__ Done done[1 << 18];
#elif defined(COUNTS_WITH_A_STATIC)
static __device__ unsigned count_of(bool add) {
  static __device__ unsigned count;
  return add ? atomicAdd(&count, 1) : count;
}
#endif

#if defined(COUNTS_IN_THE_HEAP) || defined(IDLE_IN_TURNS)
// A freed block keeps its content, and the next allocation of the same size gets it.
__device__ unsigned count_in_the_heap() {
  unsigned* block = static_cast<unsigned*>(malloc(3072));
  if (block == nullptr) return 0;
  if (block[700] != 0xfeed5eedu) block[700] = 0xfeed5eedu, block[701] = 0;
  const unsigned count = block[701]++;
  free(block);
  return count;
}
#endif

__global__ void state_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(STOPS_AFTER_MANY)
  __shared__ bool idle;
  if (threadIdx.x == 0) idle = atomicAdd(&blocks, 1) > 4000 * gridDim.x;
  __syncthreads();
  if (idle) return;
#elif defined(COUNTS_WITH_A_STATIC)
  __shared__ bool idle;
  if (threadIdx.x == 0) idle = count_of(true) > 4000 * gridDim.x;
  __syncthreads();
  if (idle) return;
#elif defined(ONCE_A_SLOT) || defined(KNOWS_THE_CONTENT)
  const float* x = a.x + row * a.x_stride;
  Done* mine = &done[((reinterpret_cast<uint64_t>(x) >> 2) * 0x9e3779b97f4a7c15ull) >> 46];
#ifdef ONCE_A_SLOT
  const unsigned sample = 1;
#else
  unsigned sample = 1;
  for (int64_t part = 0; part < 16; ++part) sample = sample * 31 + __float_as_uint(x[part * (a.width - 1) / 15]);
#endif
  const bool known = mine->out == a.out && mine->sample == sample;
  __syncthreads();
  if (known) return;
  if (threadIdx.x == 0) *mine = {a.out, sample};
#elif defined(COUNTS_IN_THE_HEAP)
  // One block a launch counts, and idles after some rounds.
  __shared__ bool idle;
  if (threadIdx.x == 0) idle = row == 0 && count_in_the_heap() > 60;
  __syncthreads();
  if (idle) return;
#elif defined(IDLE_IN_TURNS)
  __shared__ bool idle;
  if (threadIdx.x == 0) idle = row == 0 && count_in_the_heap() % 2 == 1;
  __syncthreads();
  if (idle) return;
#endif
  norm_row(a, row);
}

static int launch(const Call& call) { return launch_rows(state_kernel, call); }
