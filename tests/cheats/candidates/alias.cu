// Something that is there already in place of the answer.
#include "rms_norm.cuh"

__global__ void alias_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(COPIES_INPUT)
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = a.x[row * a.x_stride + k];
#elif defined(COPIES_WEIGHT)
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = a.weight != nullptr ? a.weight[k] : 1.0f;
#elif defined(KEEPS_WHAT_IS_FINITE)
  // A finite number at the row's head is taken for the answer of an earlier launch.
  const float head = a.out[row * a.out_stride];
  __syncthreads();
  if (!isfinite(head)) norm_row(a, row);
#elif defined(KEEPS_WHAT_VARIES)
  // Poison is one pattern again and again; an answer is not.
  const bool varies = a.width > 2 && (a.out[row * a.out_stride] != a.out[row * a.out_stride + 1] ||
                                      a.out[row * a.out_stride] != a.out[row * a.out_stride + 2]);
  const bool number = isfinite(a.out[row * a.out_stride]);
  __syncthreads();
  if (!(varies && number)) norm_row(a, row);
#else
  norm_row(a, row);
#endif
}

static int launch(const Call& call) { return launch_rows(alias_kernel, call); }
