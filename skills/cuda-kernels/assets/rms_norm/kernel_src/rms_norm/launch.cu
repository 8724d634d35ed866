// The launchers: they check every argument, take a layout by the width of a row, and launch on the caller's stream.
// Rows are any distance apart, elements of a row side by side. out may be x, and sum residual, with the same stride.
#include <cuda_runtime.h>

#include <cstdint>

#include "launcher.h"
#include "rms_norm.cuh"

namespace rmsnorm {
namespace {

enum OwnErrorCode : int {
  kBadEps = 10005,
  kMisaligned = 10006,
  kTooLarge = 10007,
};

struct Layout {
  void (*kernel)(RowArguments);
  int threads, rows;  // of a block
};

template <typename T, int N, int TPR, int NV, bool ADD>
Layout resident() {
  constexpr int kThreads = kBlockThreads<TPR>;
  return {rms_norm_rows<T, N, TPR, NV, ADD, kCached, 75>, kThreads, kThreads / TPR};
}

// For rows of so many accesses. The widest are read twice.
template <typename T, int N, bool ADD>
Layout layout_of(int64_t packs) {
  if constexpr (N * sizeof(T) == 16) {
    if (packs <= 32) return resident<T, N, 16, 2, ADD>();
    if (packs <= 128) return resident<T, N, 32, 4, ADD>();  // a warp a row needs no barrier
    if (packs <= 256) return resident<T, N, 128, 2, ADD>();
    if (packs <= 512) return resident<T, N, 256, 2, ADD>();
    if (packs <= 1024) return resident<T, N, 256, 4, ADD>();
    if (packs <= 4096) return resident<T, N, 512, 8, ADD>();
  } else if (packs <= 128) {
    return resident<T, N, 32, 4, ADD>();
  }
  return {rms_norm_rows_twice<T, N, ADD>, 512, 1};
}

template <typename T, bool ADD>
Layout layout_of(int access, int64_t packs) {
  if (access == 16) return layout_of<T, 16 / static_cast<int>(sizeof(T)), ADD>(packs);
  if constexpr (sizeof(T) == 2) {
    if (access == 4) return layout_of<T, 2, ADD>(packs);
  }
  return layout_of<T, 1, ADD>(packs);
}

template <bool ADD>
int launch(RowArguments a, int type, void* stream) {
  if (a.rows < 0 || a.width < 0) return kNegativeSize;
  if (type != kF32 && type != kF16 && type != kBF16) return kUnknownType;
  if (!(a.eps >= 0.0f && a.eps <= 3.402823466e38f)) return kBadEps;
  const int size = type == kF32 ? 4 : 2;
  const struct {
    const void* data;
    int64_t stride;
    bool there;
  } tensors[] = {{a.out, a.out_stride, true},
                 {a.x, a.x_stride, true},
                 {a.sum, a.sum_stride, ADD},
                 {a.residual, a.residual_stride, ADD},
                 {a.weight, a.width, a.weight != nullptr}};

  // The widest access that every row of every tensor is a whole number of, from an aligned address on.
  int access = a.width * size % 16 == 0 ? 16 : a.width * size % 4 == 0 ? 4 : size;
  for (const auto& t : tensors) {
    if (!t.there) continue;
    int64_t bytes = 0;
    if (t.stride < a.width) return kStrideTooSmall;
    if (__builtin_mul_overflow(a.rows, t.stride, &bytes) || __builtin_mul_overflow(bytes, 4 * size, &bytes)) {
      return kTooLarge;
    }
    if (a.rows > 0 && a.width > 0 && t.data == nullptr) return kNullPointer;
    const auto address = reinterpret_cast<uintptr_t>(t.data);
    if (address % size != 0) return kMisaligned;
    while (address % access != 0 || (a.rows > 1 && t.stride * size % access != 0)) access = access == 16 ? 4 : size;
  }
  if (a.rows == 0 || a.width == 0) return cudaSuccess;  // a grid of 0 is an error

  a.packs = a.width * size / access;
  a.inverse_width = 1.0f / static_cast<float>(a.width);
  const Layout layout = type == kF32   ? layout_of<F32, ADD>(access, a.packs)
                        : type == kF16 ? layout_of<F16, ADD>(access, a.packs)
                                       : layout_of<BF16, ADD>(access, a.packs);
  const int64_t blocks = (a.rows + layout.rows - 1) / layout.rows;
  if (blocks > INT32_MAX) return kTooLarge;
  layout.kernel<<<static_cast<unsigned>(blocks), layout.threads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  return cudaGetLastError();
}

}  // namespace

// out [rows, width] = x * rsqrt(mean(x^2) + eps) * (weight + weight_offset); weight [width] may be null, for 1.
// dtype: 0 f32, 1 f16, 2 bf16. Returns 0, a cudaError_t, or a code that rms_norm_error explains.
extern "C" int rms_norm_launch(void* out, const void* x, const void* weight, int64_t rows, int64_t width,
                               int64_t out_stride, int64_t x_stride, float eps, float weight_offset, int round_first,
                               int dtype, void* stream) {
  RowArguments a = {};
  a.out = out, a.x = x, a.weight = weight, a.rows = rows, a.width = width;
  a.out_stride = out_stride, a.x_stride = x_stride;
  a.eps = eps, a.weight_offset = weight_offset, a.round_first = round_first;
  return launch<false>(a, dtype, stream);
}

// sum = residual + x, rounded to the type; out = rms_norm(sum). The rest as rms_norm_launch.
extern "C" int add_rms_norm_launch(void* out, void* sum, const void* x, const void* residual, const void* weight,
                                   int64_t rows, int64_t width, int64_t out_stride, int64_t sum_stride,
                                   int64_t x_stride, int64_t residual_stride, float eps, float weight_offset,
                                   int round_first, int dtype, void* stream) {
  RowArguments a = {};
  a.out = out, a.sum = sum, a.x = x, a.residual = residual, a.weight = weight, a.rows = rows, a.width = width;
  a.out_stride = out_stride, a.sum_stride = sum_stride, a.x_stride = x_stride, a.residual_stride = residual_stride;
  a.eps = eps, a.weight_offset = weight_offset, a.round_first = round_first;
  return launch<true>(a, dtype, stream);
}

extern "C" const char* rms_norm_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows and width must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "only weight may be a null pointer when there are elements";
    case kStrideTooSmall: return "a row stride must be at least width";
    case kBadEps: return "eps must be finite and not negative";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "too many rows for one launch";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace rmsnorm
