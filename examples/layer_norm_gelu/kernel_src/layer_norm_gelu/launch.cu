// The launcher: it checks every argument, takes a layout by the rows and their width, and launches on the caller's
// stream. Rows are any distance apart, elements of a row side by side. Nothing here waits for the device.
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels.h"

namespace {

// Beyond every cudaError_t, so that a caller can tell a bad argument from a failed launch.
enum ErrorCode : int {
  kNegativeSize = 10001,
  kUnknownType = 10002,
  kNullPointer = 10003,
  kStrideTooSmall = 10004,
  kBadEps = 10005,
  kMisaligned = 10006,
  kTooLarge = 10007,
  kBadTanh = 10008,
};

enum Type : int { kF32 = 0, kF16 = 1, kBF16 = 2 };

}  // namespace

// out [rows, width] = gelu((x - mean(x)) * rsqrt(variance(x) + eps) * weight + bias); weight and bias [width] may be
// null, for 1 and 0. tanh: 0 for the gelu with erf, 1 for its approximation with tanh. out may be x, with one stride.
// dtype: 0 f32, 1 f16, 2 bf16. Returns 0, a cudaError_t, or a code that layer_norm_gelu_error explains; with such a code
// nothing was launched. An empty tensor launches nothing and returns 0.
extern "C" int layer_norm_gelu_launch(void* out, const void* x, const void* weight, const void* bias, int64_t rows,
                                      int64_t width, int64_t out_stride, int64_t x_stride, float eps, int tanh,
                                      int dtype, void* stream) {
  if (rows < 0 || width < 0) return kNegativeSize;
  if (out_stride < width || x_stride < width) return kStrideTooSmall;
  if (!(eps >= 0.0f && eps <= 3.402823466e38f)) return kBadEps;
  if (tanh != 0 && tanh != 1) return kBadTanh;
  if (dtype != kF32 && dtype != kF16 && dtype != kBF16) return kUnknownType;
  if (rows == 0 || width == 0) return cudaSuccess;  // a grid of 0 is an error
  if (out == nullptr || x == nullptr) return kNullPointer;

  const int size = dtype == kF32 ? 4 : 2;
  const struct {
    const void* data;
    int64_t stride, rows;
  } tensors[] = {{out, out_stride, rows}, {x, x_stride, rows}, {weight, width, 1}, {bias, width, 1}};
  bool whole = width * size % 16 == 0;  // accesses of 16 bytes reach all of every row
  for (const auto& t : tensors) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(t.rows, t.stride, &bytes) || __builtin_mul_overflow(bytes, int64_t{8}, &bytes)) {
      return kTooLarge;
    }
    const auto address = reinterpret_cast<uintptr_t>(t.data);
    if (address % size != 0) return kMisaligned;
    whole = whole && address % 16 == 0 && (t.rows == 1 || t.stride * size % 16 == 0);
  }

  const auto kernel_of = dtype == kF32   ? layer_norm_gelu_kernel_f32
                         : dtype == kF16 ? layer_norm_gelu_kernel_f16
                                         : layer_norm_gelu_kernel_bf16;
  const Kernel kernel = kernel_of(rows, width, whole, tanh != 0);
  const int64_t blocks = rows / kernel.rows + (rows % kernel.rows != 0);
  if (blocks > INT32_MAX) return kTooLarge;
  const Arguments a = {out,        x,        weight, bias, rows, width, out_stride, x_stride,
                       1.0f / static_cast<float>(width), eps};
  kernel.function<<<static_cast<unsigned>(blocks), kernel.threads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  return cudaGetLastError();
}

// What the launcher's return value means.
extern "C" const char* layer_norm_gelu_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows and width must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "only weight and bias may be null pointers when there are elements";
    case kStrideTooSmall: return "a row stride must be at least width";
    case kBadEps: return "eps must be finite and not negative";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "too many rows for one launch";
    case kBadTanh: return "tanh must be 0 or 1";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}
