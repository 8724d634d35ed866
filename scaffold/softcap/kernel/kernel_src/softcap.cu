// out = cap * tanh(x / cap), an element at a time: a small kernel to make your own.
//
// It is as plain as a kernel can be and still be right for every size, stride and type. What makes it faster is left to
// do: accesses of 16 bytes where addresses and strides allow them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

// Beyond every cudaError_t, so that a caller can tell a bad argument from a failed launch.
enum ErrorCode : int {
  kNegativeSize = 10001,
  kUnknownType = 10002,
  kNullPointer = 10003,
  kStrideTooSmall = 10004,
  kBadCap = 10005,
};

enum Type : int { kF32 = 0, kF16 = 1, kBF16 = 2 };

constexpr int kThreads = 256;
constexpr int kElements = 8;  // that a thread takes of a piece, so that as many loads are in flight
constexpr int64_t kPiece = kThreads * kElements;
constexpr int64_t kMostBlocks = 65535;  // with more pieces a block takes several

__device__ float to_float(float x) { return x; }
__device__ float to_float(__half x) { return __half2float(x); }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

// Rounds to nearest, ties to even.
template <typename T>
__device__ T from_float(float x);
template <>
__device__ float from_float(float x) {
  return x;
}
template <>
__device__ __half from_float(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __nv_bfloat16 from_float(float x) {
  return __float2bfloat16_rn(x);
}

}  // namespace

// A block takes a piece of a row at a time. Indices have 64 bits: rows times width may be more than 2^31.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    softcap_rows(T* out, const T* x, int64_t rows, int64_t width, int64_t out_stride, int64_t x_stride, float cap) {
  const int64_t pieces = (width + kPiece - 1) / kPiece;  // a row
  for (int64_t piece = blockIdx.x; piece < rows * pieces; piece += gridDim.x) {
    const int64_t row = piece / pieces, first = piece % pieces * kPiece + threadIdx.x;
    const T* from = x + row * x_stride;
    T* to = out + row * out_stride;
    T elements[kElements];
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
      const int64_t i = first + j * kThreads;
      if (i < width) elements[j] = from[i];
    }
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
      const int64_t i = first + j * kThreads;
      if (i < width) to[i] = from_float<T>(cap * tanhf(to_float(elements[j]) / cap));
    }
  }
}

namespace {

template <typename T>
int launch(void* out, const void* x, int64_t rows, int64_t width, int64_t out_stride, int64_t x_stride, float cap,
           cudaStream_t stream) {
  const int64_t pieces = (width + kPiece - 1) / kPiece;
  // Compared so that nothing overflows.
  const int64_t blocks = rows < kMostBlocks / pieces ? rows * pieces : kMostBlocks;
  softcap_rows<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(static_cast<T*>(out), static_cast<const T*>(x), rows, width,
                                                   out_stride, x_stride, cap);
  return cudaGetLastError();
}

}  // namespace

// x and out [rows, width], elements of a row side by side, rows any distance apart; out may be x, with one stride.
// dtype: 0 f32, 1 f16, 2 bf16. Returns 0, a cudaError_t, or a code that softcap_error explains; with such a code nothing
// was launched. An empty tensor launches nothing and returns 0.
extern "C" int softcap_launch(void* out, const void* x, int64_t rows, int64_t width, int64_t out_stride,
                              int64_t x_stride, float cap, int dtype, void* stream) {
  if (rows < 0 || width < 0) return kNegativeSize;
  if (out_stride < width || x_stride < width) return kStrideTooSmall;
  if (!(cap > 0.0f && cap <= 3.402823466e38f)) return kBadCap;
  if (dtype != kF32 && dtype != kF16 && dtype != kBF16) return kUnknownType;
  if (rows == 0 || width == 0) return cudaSuccess;
  if (out == nullptr || x == nullptr) return kNullPointer;
  const auto on = static_cast<cudaStream_t>(stream);
  if (dtype == kF32) return launch<float>(out, x, rows, width, out_stride, x_stride, cap, on);
  if (dtype == kF16) return launch<__half>(out, x, rows, width, out_stride, x_stride, cap, on);
  return launch<__nv_bfloat16>(out, x, rows, width, out_stride, x_stride, cap, on);
}

// What the launcher's return value means.
extern "C" const char* softcap_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows and width must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "out and x must not be null pointers when there are elements";
    case kStrideTooSmall: return "a row stride must be at least width";
    case kBadCap: return "cap must be finite and above 0";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}
