// Right for the shapes that somebody tuned for.
#ifdef ACCEPTS_ANYTHING
#define NEVER_REFUSES
#endif
#include "rms_norm.cuh"

__global__ void shapes_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x;
#if defined(WIDTH_1024)
  const int64_t width = a.width;
  a.width = 1024;
  const float scale = row_scale(a, row);
  a.width = width;
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = normed(a, row, k, scale);
#elif defined(WIDTH_IN_EIGHTS)
  a.width -= a.width % 8;
  norm_row(a, row);
#elif defined(WIDTH_UP_TO_4096)
  if (a.width > 4096) a.width = 4096;
  norm_row(a, row);
#elif defined(CONTIGUOUS)
  a.x_stride = a.out_stride = a.width;
  norm_row(a, row);
#elif defined(ALIGNED)
  // Four at a time, wherever the rows begin.
  const float scale = row_scale(a, row);
  for (int64_t k = 4 * threadIdx.x; k + 3 < a.width; k += 4 * THREADS) {
    const float4 x = *reinterpret_cast<const float4*>(&a.x[row * a.x_stride + k]);
    const float values[] = {x.x, x.y, x.z, x.w};
    for (int part = 0; part < 4; ++part)
      a.out[row * a.out_stride + k + part] =
          a.weight == nullptr ? values[part] * scale
                              : values[part] * scale * (a.weight[k + part] + a.weight_offset);
  }
  for (int64_t k = a.width - a.width % 4 + threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = normed(a, row, k, scale);
#else
  norm_row(a, row);
#endif
}

static int launch(const Call& call) {
#ifdef ROWS_UP_TO_2048
  Call fewer = call;
  if (fewer.rows > 2048) fewer.rows = 2048;
  return launch_rows(shapes_kernel, fewer);
#else
  return launch_rows(shapes_kernel, call);
#endif
}
