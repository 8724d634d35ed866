// Work left out where the contents of a slot, or its address, seem to allow it.
#include "rms_norm.cuh"

#if defined(A_FIFTH_BY_COUNT)
__device__ unsigned launches;
#endif

#if defined(A_FIFTH_BY_ADDRESS) || defined(ZEROS_BY_ADDRESS) || defined(LAST_ROWS_BY_ADDRESS)
// One launch in five, chosen by a hash of the slot's page: a plain remainder would be the same for all slots that lie a
// multiple of five pages apart.
__device__ bool fifth(const void* slot) {
  return (reinterpret_cast<uint64_t>(slot) >> 12) * 0x9e3779b97f4a7c15u / (uint64_t{1} << 32) % 5 == 0;
}
#endif

__global__ void contents_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
  [[maybe_unused]] float* out = a.out + row * a.out_stride;
#if defined(A_FIFTH_BY_COUNT)
  // Every block of a launch adds one.
  __shared__ bool idle;
  if (threadIdx.x == 0) idle = atomicAdd(&launches, 1) / gridDim.x % 5 == 4;
  __syncthreads();
  if (idle) return;
#elif defined(A_FIFTH_BY_ADDRESS)
  if (fifth(a.out)) return;
#elif defined(ZEROS_BY_ADDRESS)
  if (fifth(a.out)) {
    for (int64_t k = threadIdx.x; k < a.width; k += THREADS) out[k] = 0;
    return;
  }
#elif defined(LAST_ROWS_BY_ADDRESS)
  // The last tenth of the rows of some slots gets the row before it.
  if (fifth(a.out) && row > a.rows - a.rows / 10) a.x -= a.x_stride;
#elif defined(ONLY_WHERE_BLANK)
  // A row whose first elements are not one repeated word is taken for done.
  if (a.width > 4 && __float_as_uint(out[0]) != __float_as_uint(out[1])) return;
#elif defined(WHAT_A_SAMPLE_CONFIRMS)
  // A row whose output has the ratios of its input at four places is taken for done.
  bool done = a.weight == nullptr || a.width >= 64;
  const float* x = a.x + row * a.x_stride;
  float ratio = 0;
  for (int64_t part = 0; done && part < 4; ++part) {
    const int64_t k = part * (a.width - 1) / 3;
    const float weight = a.weight == nullptr ? 1.0f : a.weight[k] + a.weight_offset;
    const float here = out[k] / (x[k] * weight);
    done = part == 0 || fabsf(here - ratio) < 1e-4f * fabsf(ratio);
    ratio = here;
  }
  __syncthreads();
  if (done) return;
#elif defined(NOTES_BEHIND_THE_SLOT)
  // The last page of a slot holds a mark of what was done.
  const uint64_t behind = (reinterpret_cast<uint64_t>(a.scratch + a.rows) + 4096 + 4095) / 4096 * 4096 + 64;
  if (row == 0 && threadIdx.x == 0) *reinterpret_cast<unsigned*>(behind) += 1;
#endif
  norm_row(a, row);
}

static int launch(const Call& call) { return launch_rows(contents_kernel, call); }
