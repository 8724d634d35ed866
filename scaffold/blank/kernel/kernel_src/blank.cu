// @OP@: out = x * x, and its gradient.
#include "rows.cuh"

// A block takes a row at a time. Indices have 64 bits: rows times width may be more than 2^31.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    @OP@_rows(T* out, const T* x, int64_t rows, int64_t width, int64_t out_stride, int64_t x_stride) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (int64_t i = threadIdx.x; i < width; i += kThreads) {
      const float v = to_float(x[row * x_stride + i]);
      out[row * out_stride + i] = from_float<T>(v * v);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    @OP@_backward_rows(T* d_x, const T* d_out, const T* x, int64_t rows, int64_t width, int64_t d_x_stride,
                       int64_t d_out_stride, int64_t x_stride) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (int64_t i = threadIdx.x; i < width; i += kThreads) {
      const float d = to_float(d_out[row * d_out_stride + i]), v = to_float(x[row * x_stride + i]);
      d_x[row * d_x_stride + i] = from_float<T>(2.0f * v * d);
    }
  }
}

extern "C" int @OP@_launch(void* out, const void* x, int64_t rows, int64_t width, int64_t out_stride, int64_t x_stride,
                           int dtype, void* stream) {
  if (const int code = check(rows, width, dtype, {{out, out_stride}, {x, x_stride}})) return code;
  return by_type(rows, width, dtype, stream, [&](auto type, unsigned blocks, cudaStream_t on) {
    using T = decltype(type);
    @OP@_rows<<<blocks, kThreads, 0, on>>>(static_cast<T*>(out), static_cast<const T*>(x), rows, width, out_stride,
                                           x_stride);
    return cudaGetLastError();
  });
}

extern "C" int @OP@_backward_launch(void* d_x, const void* d_out, const void* x, int64_t rows, int64_t width,
                                    int64_t d_x_stride, int64_t d_out_stride, int64_t x_stride, int dtype,
                                    void* stream) {
  if (const int code = check(rows, width, dtype, {{d_x, d_x_stride}, {d_out, d_out_stride}, {x, x_stride}})) return code;
  return by_type(rows, width, dtype, stream, [&](auto type, unsigned blocks, cudaStream_t on) {
    using T = decltype(type);
    @OP@_backward_rows<<<blocks, kThreads, 0, on>>>(static_cast<T*>(d_x), static_cast<const T*>(d_out),
                                                    static_cast<const T*>(x), rows, width, d_x_stride, d_out_stride,
                                                    x_stride);
    return cudaGetLastError();
  });
}

extern "C" const char* @OP@_error(int code) { return explain(code); }
