// out = int8(x / scale), scale = largest |x| of the row / 127. A block takes a row at a time and reads it twice: the second time from
// L2. Four bytes are written at once where rows are aligned for that.
#include "pack.cuh"

__device__ inline int8_t quantised(float v, float scale) {
  if (scale == 0.0f) return 0;
  return static_cast<int8_t>(fminf(fmaxf(rintf(__fdiv_rn(v, scale)), -127.0f), 127.0f));
}

struct Rows {
  int8_t* out;
  float* scale;
  const __nv_bfloat16* x;
  int64_t rows, width, out_stride, x_stride;
};

template <int N>
__global__ void __launch_bounds__(kThreads) quant_rows_kernel(Rows a) {
  __shared__ float largest[2][kThreads / 32];
  int turn = 0;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
    const __nv_bfloat16* from = a.x + row * a.x_stride;
    float most = 0.0f;
    for (int64_t i = threadIdx.x * N; i < a.width; i += kThreads * N) {
      const auto pack = load<N>(from, i);
#pragma unroll
      for (int j = 0; j < N; ++j) most = fmaxf(most, fabsf(to_float(pack.v[j])));
    }
    most = reduce(most, largest[turn], [](float v, float w) { return fmaxf(v, w); });
    const float unit = most / 127.0f;
    if (threadIdx.x == 0) a.scale[row] = unit;
    int8_t* to = a.out + row * a.out_stride;
    for (int64_t i = threadIdx.x * N; i < a.width; i += kThreads * N) {
      const auto pack = load<N>(from, i);
      Pack<int8_t, N> result;
#pragma unroll
      for (int j = 0; j < N; ++j) result.v[j] = quantised(to_float(pack.v[j]), unit);
      store(to, i, result);
    }
  }
}

extern "C" int quant_rows_launch(void* out, void* scale, const void* x, int64_t rows, int64_t width, int64_t out_stride, int64_t x_stride,
                                 cudaStream_t stream) {
  if (rows < 0 || width < 0 || out_stride < width || x_stride < width) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(rows < 1 << 20 ? rows : 1 << 20);
  const Rows a = {static_cast<int8_t*>(out), static_cast<float*>(scale), static_cast<const __nv_bfloat16*>(x), rows, width, out_stride, x_stride};
  constexpr int kWideRows = kWide<__nv_bfloat16>;
  const bool wide = is_wide<__nv_bfloat16>(x, x_stride) && width % kWideRows == 0 && out_stride % kWideRows == 0 &&
                    reinterpret_cast<uintptr_t>(out) % kWideRows == 0;
  if (wide) {
    quant_rows_kernel<kWideRows><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    quant_rows_kernel<1><<<blocks, kThreads, 0, stream>>>(a);
  }
  return cudaGetLastError();
}
