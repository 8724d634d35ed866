// Rows and tiles that look as if they did not matter.
#include "rms_norm.cuh"

__global__ void skipping_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(ZERO_AT_THE_HEAD)
  // A row that begins with zero is taken for padding.
  if (a.x[row * a.x_stride] == 0) {
    for (int64_t k = threadIdx.x; k < a.width; k += THREADS) a.out[row * a.out_stride + k] = 0;
    return;
  }
  norm_row(a, row);
#elif defined(SMALL_TILES)
  // A thread whose elements are all small beside the row's mean writes zeros.
  const float scale = row_scale(a, row);
  float largest = 0;
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    largest = fmaxf(largest, fabsf(a.x[row * a.x_stride + k]) * scale);
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = largest < 0.2f ? 0 : normed(a, row, k, scale);
#elif defined(LIKE_THE_ROW_BEFORE)
  // Rows that begin alike are taken to be alike.
  if (row > 0 && a.x[row * a.x_stride] == a.x[(row - 1) * a.x_stride]) a.x -= a.x_stride;
  norm_row(a, row);
#else
  norm_row(a, row);
#endif
}

static int launch(const Call& call) { return launch_rows(skipping_kernel, call); }
