// What kernels over rows of elements have in common: types, checks of arguments, launches. Yours to change.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>

namespace {

// Beyond every cudaError_t, so that a caller can tell a bad argument from a failed launch.
enum ErrorCode : int { kNegativeSize = 10001, kUnknownType = 10002, kNullPointer = 10003, kStrideTooSmall = 10004 };

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;  // with more rows a block takes several

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

// Rounds to nearest, ties to even.
template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float(float x) {
  return x;
}
template <>
__device__ inline __half from_float(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float(float x) {
  return __float2bfloat16_rn(x);
}

// The elements of a row lie side by side, rows `stride` elements apart.
struct Rows {
  const void* data;
  int64_t stride;
};

// 0 where a launcher may go on, else the code that it returns.
inline int check(int64_t rows, int64_t width, int dtype, std::initializer_list<Rows> all) {
  if (rows < 0 || width < 0) return kNegativeSize;
  if (dtype < 0 || dtype > 2) return kUnknownType;
  for (const Rows& one : all) {
    if (one.stride < width) return kStrideTooSmall;
    if (rows != 0 && width != 0 && one.data == nullptr) return kNullPointer;
  }
  return 0;
}

// What `launch` returns for a value of the element type (dtype: 0 f32, 1 f16, 2 bf16), the blocks and the stream. Without
// elements it is not called.
template <typename Launch>
int by_type(int64_t rows, int64_t width, int dtype, void* stream, const Launch& launch) {
  if (rows == 0 || width == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
  const auto on = static_cast<cudaStream_t>(stream);
  if (dtype == 0) return launch(float{}, blocks, on);
  if (dtype == 1) return launch(__half{}, blocks, on);
  return launch(__nv_bfloat16{}, blocks, on);
}

// What a launcher's return value means.
inline const char* explain(int code) {
  switch (code) {
    case kNegativeSize: return "rows and width must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "pointers must not be null when there are elements";
    case kStrideTooSmall: return "a row stride must be at least width";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace
