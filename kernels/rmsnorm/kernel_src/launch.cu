// The launchers: they check every argument, pick a kernel from the tuning table and launch it.
//
// Rows are any distance apart, elements of a row side by side. out may be x and sum may be residual, with the same
// stride; any other overlap of an output with an input is undefined. Nothing here waits for the device.
#include <cuda_runtime.h>

#include <cstdint>

#include "arguments.h"
#include "dependent.cuh"
#include "kernels.h"
#include "launcher.h"

namespace rmsnorm {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kBadEps = 10005,
  kBadRoundFirst = 10006,
  kMisaligned = 10007,
  kTooLarge = 10008,
  kNoCode = 10009,
};

struct Matrix {
  const void* data;
  int64_t stride;  // elements
};

// 0, or why these arguments are refused.
int check(const RowArguments& a, int type, bool add) {
  if (a.rows < 0 || a.width < 0) return kNegativeSize;
  if (type != kF32 && type != kF16 && type != kBF16) return kUnknownType;
  if (!(a.eps >= 0.0f && a.eps <= 3.402823466e38f)) return kBadEps;
  if (a.round_first != 0 && a.round_first != 1) return kBadRoundFirst;
  const int64_t size = type == kF32 ? 4 : 2;
  const Matrix matrices[] = {
      {a.out, a.out_stride}, {a.x, a.x_stride}, {a.sum, a.sum_stride}, {a.residual, a.residual_stride}};
  const bool empty = a.rows == 0 || a.width == 0;
  for (int i = 0; i < (add ? 4 : 2); ++i) {
    int64_t bytes = 0;
    const int64_t stride = a.rows > 1 ? matrices[i].stride : a.width;  // one row has no next one
    if (stride < a.width) return kStrideTooSmall;
    if (__builtin_mul_overflow(a.rows, stride, &bytes) || __builtin_mul_overflow(bytes, 4 * size, &bytes)) {
      return kTooLarge;  // with room for the sum of the bytes of four matrices
    }
    if (!empty && matrices[i].data == nullptr) return kNullPointer;
    if (!divides(size, matrices[i].data)) return kMisaligned;
  }
  return divides(size, a.weight) ? 0 : kMisaligned;
}

// The accesses of a call: of 16 bytes or of 4 where every row of every tensor is a whole number of them, from an aligned address
// on; kUnaligned where each row lies at the same place between multiples of 16 in all tensors; else of one element.
int widest_access(const RowArguments& a, int size, bool add, int64_t bytes_moved) {
  const Matrix matrices[] = {{a.out, a.out_stride}, {a.x, a.x_stride}, {a.sum, a.sum_stride}, {a.residual, a.residual_stride}};
  // One row has no next one, and its stride may be anything.
  const auto step = [&](const Matrix& m) { return a.rows > 1 ? m.stride * size : 0; };
  bool alike = true;
  for (int i = 1; i < (add ? 4 : 2); ++i) {
    const auto apart = reinterpret_cast<uintptr_t>(matrices[i].data) - reinterpret_cast<uintptr_t>(a.out);
    alike = alike && apart % 16 == 0 && (step(matrices[i]) - step(matrices[0])) % 16 == 0;
  }
  const auto fits = [&](int bytes) {
    bool all = a.width * size % bytes == 0 && divides(bytes, a.weight);
    for (int i = 0; i < (add ? 4 : 2); ++i) all = all && divides(bytes, matrices[i].data) && step(matrices[i]) % bytes == 0;
    return all;
  };
  if (fits(16)) return 16;
  if (fits(4) && is_by_words(size, a.width * size / 4, alike, bytes_moved)) return 4;
  return alike ? kUnaligned : size;
}

cudaError_t sms_of_device(int& sms) {
  static OfDevice known;
  return known.get(sms, [](int device, int& found) {
    return cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
  });
}

void advance(RowArguments& a, int64_t rows, int64_t size) {
  a.out = static_cast<char*>(a.out) + rows * a.out_stride * size;
  a.x = static_cast<const char*>(a.x) + rows * a.x_stride * size;
  if (a.sum != nullptr) a.sum = static_cast<char*>(a.sum) + rows * a.sum_stride * size;
  if (a.residual != nullptr) a.residual = static_cast<const char*>(a.residual) + rows * a.residual_stride * size;
}

int launch(RowArguments a, int type, bool add, cudaStream_t stream) {
  if (const int error = check(a, type, add)) return error;
  if (a.rows == 0 || a.width == 0) return cudaSuccess;
  const auto kernel_of = type == kF32 ? rms_norm_kernel_f32 : type == kF16 ? rms_norm_kernel_f16 : rms_norm_kernel_bf16;
  const int size = type == kF32 ? 4 : 2;
  const int64_t bytes = (add ? 4 : 2) * a.rows * a.width * size;
  int access = widest_access(a, size, add, bytes), arch = 0;
  if (const cudaError_t error = code_arch(kernel_of({512, 0, kCachedLoads}, size, false), arch)) return error;
  a.packs = access == kUnaligned ? a.width * size / 16 + 1 : (a.width * size + access - 1) / access;
  const Tuning* tuning = find_rms_norm_tuning(arch, access, a.packs, bytes, a.rows, add);
  if (tuning == nullptr) return kNoCode;
  const Layout& layout = tuning->layout;
  int threads = access == 4 && size == 2 && layout.packs != 0 && layout.threads <= 32 ? kWordThreads
                : layout.threads < 128                                               ? 128
                                                                                     : layout.threads;
  const int rows_per_block = threads / layout.threads;
  if (access == kUnaligned && is_by_elements(layout)) {
    access = size, a.packs = a.width;
  } else if (access == kUnaligned && rows_per_block == 1) {
    threads = static_cast<int>((a.packs - 1 + 32 * layout.packs - 1) / (32 * layout.packs)) * 32;
    int sms = 0;
    if (const cudaError_t error = sms_of_device(sms)) return error;
    a.ahead = sms * (layout.threads / threads);  // the layout's threads are what an SM has registers for
  }
  const void* kernel = kernel_of(layout, access, add);
  a.inverse_width = 1.0f / static_cast<float>(a.width);

  // One launch, but for more rows than a grid has blocks for.
  const int64_t rows = a.rows, most = static_cast<int64_t>(INT32_MAX) * rows_per_block;
  for (int64_t done = 0; done < rows; done += most) {
    a.rows = rows - done < most ? rows - done : most;
    void* parameters[] = {&a};
    const dim3 grid(static_cast<unsigned>((a.rows + rows_per_block - 1) / rows_per_block));
    if (const cudaError_t error = cleared(launch_dependent(kernel, arch, grid, threads, parameters, 0, stream))) return error;
    if (done + most < rows) advance(a, most, size);
  }
  return cudaSuccess;
}

}  // namespace

// out [rows, width] = x * rsqrt(mean(x^2) + eps) * (weight + weight_offset); weight [width] may be null, for 1.
// dtype: 0 f32, 1 f16, 2 bf16. round_first: see RowArguments. Returns 0, a cudaError_t, or a code that
// rmsnorm_error explains; with such a code nothing was launched. An empty tensor launches nothing and returns 0.
extern "C" int rms_norm_launch(void* out, const void* x, const void* weight, int64_t rows, int64_t width,
                               int64_t out_stride, int64_t x_stride, float eps, float weight_offset, int round_first,
                               int dtype, void* stream) {
  RowArguments a = {};
  a.out = out, a.x = x, a.weight = weight;
  a.rows = rows, a.width = width;
  a.out_stride = out_stride, a.x_stride = x_stride;
  a.eps = eps, a.weight_offset = weight_offset, a.round_first = round_first;
  return launch(a, dtype, false, static_cast<cudaStream_t>(stream));
}

// sum = residual + x, rounded to the type; out = rms_norm(sum). The rest as rms_norm_launch.
extern "C" int add_rms_norm_launch(void* out, void* sum, const void* x, const void* residual, const void* weight,
                                   int64_t rows, int64_t width, int64_t out_stride, int64_t sum_stride,
                                   int64_t x_stride, int64_t residual_stride, float eps, float weight_offset,
                                   int round_first, int dtype, void* stream) {
  RowArguments a = {};
  a.out = out, a.sum = sum, a.x = x, a.residual = residual, a.weight = weight;
  a.rows = rows, a.width = width;
  a.out_stride = out_stride, a.sum_stride = sum_stride;
  a.x_stride = x_stride, a.residual_stride = residual_stride;
  a.eps = eps, a.weight_offset = weight_offset, a.round_first = round_first;
  return launch(a, dtype, true, static_cast<cudaStream_t>(stream));
}

// What a launcher's return value means.
extern "C" const char* rmsnorm_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows and width must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "only weight may be a null pointer when there are elements";
    case kStrideTooSmall: return "a row stride must be at least width";
    case kBadEps: return "eps must be finite and not negative";
    case kBadRoundFirst: return "round_first must be 0 or 1";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "rows times stride is more than 64-bit addresses can tell";
    case kNoCode: return "the code was compiled for an architecture before sm_75";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace rmsnorm
