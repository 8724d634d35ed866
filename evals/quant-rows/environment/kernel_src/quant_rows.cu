#include <cuda_runtime.h>

#include <cstdint>

extern "C" int quant_rows_launch(void* out, void* scale, const void* x, int64_t rows, int64_t width, int64_t out_stride, int64_t x_stride,
                                 cudaStream_t stream) {
  return cudaErrorNotSupported;
}
