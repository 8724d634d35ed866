// The launchers: they check every argument, pick a kernel from the tuning table and launch it.
//
// Rows are any distance apart, elements of a row side by side. An output may be the input of its shape, with the same
// stride; any other overlap of an output with an input is undefined. Nothing here waits for the device.
#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>
#include <iterator>

#include "arguments.h"
#include "dependent.cuh"
#include "kernels.h"
#include "launcher.h"

namespace softmax {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kBadScale = 10005,
  kBadSmoothing = 10006,
  kMisaligned = 10007,
  kTooLarge = 10008,
  kNoCode = 10009,
  kNoClasses = 10010,
};

// Elements of a row are counted in 32 bits, with room for a step beyond the last.
constexpr int64_t kMostColumns = 1 << 30;

struct Matrix {
  const void* data;
  int64_t stride;  // elements
};

// 0, or why these matrices of rows x width elements of `size` bytes are refused.
int check(int64_t rows, int64_t width, int type, std::initializer_list<Matrix> matrices) {
  if (rows < 0 || width < 0) return kNegativeSize;
  if (type != kF32 && type != kF16 && type != kBF16) return kUnknownType;
  if (width > kMostColumns) return kTooLarge;
  const int64_t size = type == kF32 ? 4 : 2;
  const bool empty = rows == 0 || width == 0;
  for (const Matrix& matrix : matrices) {
    int64_t bytes = 0;
    const int64_t stride = rows > 1 ? matrix.stride : width;  // one row has no next one
    if (stride < width) return kStrideTooSmall;
    if (__builtin_mul_overflow(rows, stride, &bytes) || __builtin_mul_overflow(bytes, 4 * size, &bytes)) {
      return kTooLarge;
    }
    if (!empty && matrix.data == nullptr) return kNullPointer;
    if (!divides(size, matrix.data)) return kMisaligned;
  }
  return 0;
}

// The same of vectors with an element a row.
struct Vector {
  const void* data;
  int size;
};
int check(int64_t rows, std::initializer_list<Vector> vectors) {
  for (const Vector& vector : vectors) {
    if (rows > 0 && vector.data == nullptr) return kNullPointer;
    if (!divides(vector.size, vector.data)) return kMisaligned;
  }
  return 0;
}

bool is_share(float smoothing) { return smoothing >= 0.0f && smoothing <= 1.0f; }

// What a launch's rows are, of which the one matrix is read and the other written.
Rows kind_of(const Matrix& one, const Matrix& other, int64_t rows, int64_t width, int size) {
  const auto past = [&](const Matrix& m) { return reinterpret_cast<uintptr_t>(m.data) % 16; };
  // One row has no next one, and its stride may be anything.
  const bool alike = past(one) == past(other) && (rows == 1 || (one.stride - other.stride) * size % 16 == 0);
  const bool whole = past(one) == 0 && width * size % 16 == 0 && (rows == 1 || one.stride * size % 16 == 0);
  return !alike ? kNarrow : whole ? kWhole : kWide;
}

void advance(SoftmaxArguments& a, int64_t rows, int64_t size) {
  a.out = static_cast<char*>(a.out) + rows * a.out_stride * size;
  a.x = static_cast<const char*>(a.x) + rows * a.x_stride * size;
}
void advance(CrossEntropyArguments& a, int64_t rows, int64_t size) {
  if (a.dlogits != nullptr) a.dlogits = static_cast<char*>(a.dlogits) + rows * a.dlogits_stride * size;
  if (a.dlogits != nullptr) a.row_lse += rows, a.dloss += rows;
  if (a.dlogits == nullptr) a.loss += rows, a.lse += rows;
  a.logits = static_cast<const char*>(a.logits) + rows * a.logits_stride * size;
  a.targets += rows;
}

// The threads of a block, at most.
int block_of(const Layout& layout) { return layout.threads < 128 ? 128 : layout.threads; }

void set_pieces(SoftmaxArguments&, int64_t) {}
void set_pieces(CrossEntropyArguments& a, int64_t pieces) { a.pieces = static_cast<int>(pieces); }

template <typename Arguments>
int launch(Arguments a, Operation operation, int64_t width, int type, Rows kind, cudaStream_t stream) {
  const bool wide = kind != kNarrow;
  const auto kernel_of = type == kF32 ? softmax_kernel_f32 : type == kF16 ? softmax_kernel_f16 : softmax_kernel_bf16;
  const int size = type == kF32 ? 4 : 2, elements = wide ? 16 / size : 1;
  int arch = 0;
  if (const cudaError_t error = code_arch(kernel_of(kCrossEntropy, {512, 0}, true), arch)) return error;
  // As many as an aligned row has; one that is not has no more.
  const int64_t packs = width / elements;
  const Tuning* tuning = find_softmax_tuning(arch, operation, kind, packs, [&](const Tuning& few) {
    static OfDevice known[3][std::size(kTuning)];
    const Layout& l = few.layout;
    const int block = block_of(l);
    int clusters = 0;
    const auto error =
        clusters_at_once(known[type][&few - kTuning], kernel_of(operation, l, wide), l.cluster, block, clusters);
    return error == cudaSuccess && a.rows <= int64_t{clusters} * (block / l.threads);
  });
  if (tuning == nullptr) return kNoCode;
  const Layout& layout = tuning->layout;
  const void* kernel = kernel_of(operation, layout, wide);
  const int rows_per_block = block_of(layout) / layout.threads;
  int threads = block_of(layout);
  if (operation == kSoftmax && rows_per_block == 1 && layout.packs > 0 && layout.packs <= 4) {
    threads = static_cast<int>((packs + 32 * layout.packs - 1) / (32 * layout.packs)) * 32;
  }
  int64_t pieces = layout.cluster;
  // Backward has blocks of two packs a thread, rounded up to whole blocks; a warp takes a row alone.
  if (operation == kCrossEntropyBackward && rows_per_block == 1) {
    pieces = (packs + 2 * threads - 1) / (2 * threads);
    pieces = pieces < 1 ? 1 : pieces > 1 << 16 ? 1 << 16 : pieces;
  }
  set_pieces(a, pieces);

  cudaLaunchAttribute attributes[] = {dependent(), in_clusters(layout.cluster)};
  cudaLaunchConfig_t config = {};
  config.blockDim = dim3(threads), config.stream = stream;
  config.attrs = attributes, config.numAttrs = arch < 90 ? 0 : layout.cluster > 1 ? 2 : 1;

  // One launch, but for more rows than a grid has blocks for.
  const int64_t rows = a.rows, most = INT32_MAX / pieces * rows_per_block;
  for (int64_t done = 0; done < rows; done += most) {
    a.rows = rows - done < most ? rows - done : most;
    void* parameters[] = {&a};
    config.gridDim = dim3(static_cast<unsigned>((a.rows + rows_per_block - 1) / rows_per_block * pieces));
    if (const cudaError_t error = cleared(cudaLaunchKernelExC(&config, kernel, parameters))) return error;
    if (done + most < rows) advance(a, most, size);
  }
  return cudaSuccess;
}

}  // namespace

// out [rows, width] = softmax(scale * x) over each row; scale may be negative. dtype: 0 f32, 1 f16, 2 bf16. A position
// of -infinity gives 0; a row of nothing else gives NaN. Returns 0, a cudaError_t, or a code that softmax_error
// explains; with such a code nothing was launched. An empty tensor launches nothing and returns 0.
extern "C" int softmax_launch(void* out, const void* x, int64_t rows, int64_t width, int64_t out_stride,
                              int64_t x_stride, float scale, int dtype, void* stream) {
  const Matrix to = {out, out_stride}, from = {x, x_stride};
  if (const int error = check(rows, width, dtype, {to, from})) return error;
  if (!(scale >= -2e38f && scale <= 2e38f)) return kBadScale;  // times log2(e), it is finite
  if (rows == 0 || width == 0) return cudaSuccess;
  SoftmaxArguments a = {};
  a.out = out, a.x = x;
  a.rows = rows, a.width = static_cast<int>(width);
  a.out_stride = out_stride, a.x_stride = x_stride;
  a.log2_scale = static_cast<float>(scale * 1.4426950408889634);
  const Rows kind = kind_of(to, from, rows, width, size_of(dtype));
  a.whole = kind == kWhole;
  return launch(a, kSoftmax, width, dtype, kind, static_cast<cudaStream_t>(stream));
}

// loss [rows] and lse [rows], in f32, of logits [rows, classes] and targets [rows]: loss as torch's cross_entropy has it
// with reduction="none", lse the log of the sum of exponentials. A target of ignore_index: loss 0, lse as ever. Any
// other target that is no class: loss NaN, and nothing is read for it. The rest as softmax_launch.
extern "C" int cross_entropy_launch(float* loss, float* lse, const void* logits, const int64_t* targets, int64_t rows,
                                    int64_t classes, int64_t logits_stride, int64_t ignore_index,
                                    float label_smoothing, int dtype, void* stream) {
  if (const int error = check(rows, classes, dtype, {{logits, logits_stride}})) return error;
  if (classes == 0) return kNoClasses;
  if (!is_share(label_smoothing)) return kBadSmoothing;
  if (const int error = check(rows, {{loss, 4}, {lse, 4}, {targets, 8}})) return error;
  if (rows == 0) return cudaSuccess;
  CrossEntropyArguments a = {};
  a.loss = loss, a.lse = lse, a.logits = logits, a.targets = targets;
  a.rows = rows, a.classes = static_cast<int>(classes);
  a.logits_stride = logits_stride;
  a.ignore_index = ignore_index, a.smoothing = label_smoothing;
  return launch(a, kCrossEntropy, classes, dtype, kWide, static_cast<cudaStream_t>(stream));
}

// dlogits [rows, classes] of dloss [rows] and of what cross_entropy_launch was given and wrote to lse. A target of
// ignore_index: a row of 0. Any other that is no class: a row of NaN. The rest as cross_entropy_launch.
extern "C" int cross_entropy_backward_launch(void* dlogits, const void* logits, const float* lse,
                                             const int64_t* targets, const float* dloss, int64_t rows, int64_t classes,
                                             int64_t dlogits_stride, int64_t logits_stride, int64_t ignore_index,
                                             float label_smoothing, int dtype, void* stream) {
  const Matrix to = {dlogits, dlogits_stride}, from = {logits, logits_stride};
  if (const int error = check(rows, classes, dtype, {to, from})) return error;
  if (classes == 0) return kNoClasses;
  if (!is_share(label_smoothing)) return kBadSmoothing;
  if (const int error = check(rows, {{lse, 4}, {targets, 8}, {dloss, 4}})) return error;
  if (rows == 0) return cudaSuccess;
  CrossEntropyArguments a = {};
  a.dlogits = dlogits, a.logits = logits, a.targets = targets, a.row_lse = lse, a.dloss = dloss;
  a.rows = rows, a.classes = static_cast<int>(classes);
  a.dlogits_stride = dlogits_stride, a.logits_stride = logits_stride;
  a.ignore_index = ignore_index, a.smoothing = label_smoothing;
  a.share = label_smoothing / static_cast<float>(classes);
  const Rows kind = kind_of(to, from, rows, classes, size_of(dtype));
  return launch(a, kCrossEntropyBackward, classes, dtype, kind, static_cast<cudaStream_t>(stream));
}

// What a launcher's return value means.
extern "C" const char* softmax_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows, width and classes must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "no pointer may be null when there are elements";
    case kStrideTooSmall: return "a row stride must be at least the row's length";
    case kBadScale: return "scale must be finite, and not beyond 2e38 either way";
    case kBadSmoothing: return "label_smoothing must be from 0 to 1";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge:
      return "a row has more than 2^30 elements, or rows times stride is more than 64-bit addresses can tell";
    case kNoCode: return "the code was compiled for an architecture before sm_75";
    case kNoClasses: return "there must be at least one class";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace softmax
