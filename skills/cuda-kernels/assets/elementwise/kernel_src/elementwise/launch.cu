// The launchers: they check every argument, pick a kernel from the tuning table and launch it.
//
// Rows are any distance apart, elements of a row side by side. out may lie on residual, element on element; else no output
// may overlap an input. Nothing here waits for the device.
#include <cuda_runtime.h>

#include <cstdint>

#include "arguments.h"
#include "dependent.cuh"
#include "kernels.h"
#include "launcher.h"
#include "tuning.h"

namespace elementwise {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kBadOption = 10005,
  kMisaligned = 10006,
  kTooLarge = 10007,
  kNoCode = 10008,
};

// A tensor as a caller passes it: rows that lie so many elements apart; a vector has one row for all.
struct Matrix {
  const void* data;
  int64_t stride;
};

constexpr int kMatrices = 3, kVectorsOfACall = 2;

struct Call {
  Matrix matrices[kMatrices];  // out, residual, x
  const void* vectors[kVectorsOfACall];  // bias, scale
  int64_t rows, width;
  int tanh, type;
  cudaStream_t stream;
};

// 0, or why these arguments are refused.
int check(const Call& call) {
  if (call.rows < 0 || call.width < 0) return kNegativeSize;
  if (call.type != kF32 && call.type != kF16 && call.type != kBF16) return kUnknownType;
  if (call.tanh != 0 && call.tanh != 1) return kBadOption;
  const int64_t size = size_of(call.type);
  const bool empty = call.rows == 0 || call.width == 0;
  for (const Matrix& m : call.matrices) {
    int64_t bytes = 0;
    const int64_t stride = call.rows > 1 ? m.stride : call.width;  // one row has no next one
    if (stride < call.width) return kStrideTooSmall;
    if (__builtin_mul_overflow(call.rows, stride, &bytes) || __builtin_mul_overflow(bytes, size, &bytes)) {
      return kTooLarge;
    }
    if (!empty && m.data == nullptr) return kNullPointer;
    if (!divides(size, m.data)) return kMisaligned;
  }
  for (const void* vector : call.vectors) {
    if (!empty && vector == nullptr) return kNullPointer;
    if (!divides(size, vector)) return kMisaligned;
  }
  return 0;
}

// The bytes of the widest access that every row of every tensor is a whole number of, from an aligned address on.
int widest_access(const Call& call) {
  const int64_t size = size_of(call.type);
  for (const int bytes : {16, 4}) {
    bool fits = call.width * size % bytes == 0;
    // One row has no next one, and its stride may be anything.
    for (const Matrix& m : call.matrices)
      fits = fits && divides(bytes, m.data) && (call.rows == 1 || m.stride * size % bytes == 0);
    for (const void* vector : call.vectors) fits = fits && divides(bytes, vector);
    if (fits) return bytes;
  }
  return static_cast<int>(size);
}

int launch(const Call& call) {
  if (const int error = check(call)) return error;
  if (call.rows == 0 || call.width == 0) return cudaSuccess;
  const auto kernel_of = call.type == kF32   ? elementwise_kernel_f32
                         : call.type == kF16 ? elementwise_kernel_f16
                                             : elementwise_kernel_bf16;
  const int64_t size = size_of(call.type);
  const int access = widest_access(call);
  const int64_t packs_per_row = call.width * size / access;
  // One launch, but for 2^31 packs and more: then a launch takes as many rows as have fewer.
  constexpr int64_t kMost = INT32_MAX;
  if (packs_per_row > kMost) return kTooLarge;

  int arch = 0;
  if (const cudaError_t error = code_arch(kernel_of(kNarrowPacks, static_cast<int>(size), 0), arch)) return error;
  const Tuning* tuning = find_elementwise_tuning(arch, access);
  if (tuning == nullptr) return kNoCode;
  const void* kernel = kernel_of(tuning->packs, access, call.tanh);
  const int64_t packs_per_block = static_cast<int64_t>(tuning->threads) * tuning->packs;
  const int64_t rows = kMost / packs_per_row < call.rows ? kMost / packs_per_row : call.rows;
  for (int64_t row = 0; row < call.rows; row += rows) {
    const auto from = [=](const Matrix& m) { return static_cast<const char*>(m.data) + row * m.stride * size; };
    ElementwiseArguments<kMatrices - 1, kVectorsOfACall> a = {};
    a.out = const_cast<char*>(from(call.matrices[0])), a.out_stride = call.matrices[0].stride;
    for (int t = 1; t < kMatrices; ++t)
      a.input[t - 1] = from(call.matrices[t]), a.input_stride[t - 1] = call.matrices[t].stride;
    for (int t = 0; t < kVectorsOfACall; ++t) a.vector[t] = call.vectors[t];
    a.packs_per_row = static_cast<uint32_t>(packs_per_row);
    a.packs = static_cast<uint32_t>((call.rows - row < rows ? call.rows - row : rows) * packs_per_row);
    a.by_row = Divisor(a.packs_per_row);
    const dim3 grid(static_cast<unsigned>((a.packs + packs_per_block - 1) / packs_per_block));
    void* parameters[] = {&a};
    const auto error = cleared(launch_dependent(kernel, arch, grid, tuning->threads, parameters, 0, call.stream));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

// out [rows, width] = residual + scale * gelu(x + bias), where residual and x are [rows, width], and bias and scale
// [width]; tanh: with the tanh approximation. Strides are elements from row to row. dtype: 0 f32, 1 f16, 2 bf16. Returns 0,
// a cudaError_t, or a code that elementwise_error explains; with such a code nothing was launched. An empty tensor launches
// nothing and returns 0.
extern "C" int bias_gelu_scale_residual_launch(void* out, const void* residual, const void* x, const void* bias,
                                               const void* scale, int64_t rows, int64_t width, int64_t out_stride,
                                               int64_t residual_stride, int64_t x_stride, int tanh, int dtype,
                                               void* stream) {
  return launch({{{out, out_stride}, {residual, residual_stride}, {x, x_stride}},
                 {bias, scale}, rows, width, tanh, dtype, static_cast<cudaStream_t>(stream)});
}

// The same, the sum in the place of residual.
extern "C" int bias_gelu_scale_residual_in_place_launch(void* residual, const void* x, const void* bias,
                                                        const void* scale, int64_t rows, int64_t width,
                                                        int64_t residual_stride, int64_t x_stride, int tanh, int dtype,
                                                        void* stream) {
  return launch({{{residual, residual_stride}, {residual, residual_stride}, {x, x_stride}},
                 {bias, scale}, rows, width, tanh, dtype, static_cast<cudaStream_t>(stream)});
}

// What a launcher's return value means.
extern "C" const char* elementwise_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows and width must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "no tensor may be a null pointer when there are elements";
    case kStrideTooSmall: return "a row stride must be at least width";
    case kBadOption: return "tanh must be 0 or 1";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "rows times stride is more than 64-bit addresses can tell, or a row has 2^31 accesses";
    case kNoCode: return "the code was compiled for an architecture before sm_75";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace elementwise
