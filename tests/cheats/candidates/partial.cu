// Outputs that are not written, or not all of them.
#include "rms_norm.cuh"

__global__ void partial_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(NOTHING)
  (void)row;
#elif defined(LAST_ROW)
  if (row + 1 < a.rows) norm_row(a, row);
#elif defined(EVERY_1000TH_ROW)
  if (row % 1000 != 999) norm_row(a, row);
#elif defined(LAST_ODD_ELEMENT)
  // In pairs, and the element that has no partner is forgotten.
  const float scale = row_scale(a, row);
  for (int64_t k = 2 * threadIdx.x; k + 1 < a.width; k += 2 * THREADS) {
    a.out[row * a.out_stride + k] = normed(a, row, k, scale);
    a.out[row * a.out_stride + k + 1] = normed(a, row, k + 1, scale);
  }
#elif defined(ONE_ELEMENT)
  const float scale = row_scale(a, row);
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    if (row != a.rows / 2 || k != a.width / 3)
      a.out[row * a.out_stride + k] = normed(a, row, k, scale);
#else
  norm_row(a, row);
#endif
}

static int launch(const Call& call) { return launch_rows(partial_kernel, call); }
