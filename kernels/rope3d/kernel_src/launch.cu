// The launchers: they check every argument, pick a kernel from the tuning tables and launch it.
//
// Tokens are any distance apart, elements of a token side by side. q_out may be q and k_out may be k, with the same
// stride; any other overlap of an output with an input is undefined. Nothing here waits for the device.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "arguments.h"
#include "dependent.cuh"
#include "kernels.h"
#include "launcher.h"

namespace rope3d {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kBadEps = 10005,
  kBadRoundFirst = 10006,
  kMisaligned = 10007,
  kTooLarge = 10008,
  kNoCode = 10009,
  kOddDim = 10010,
  kBadTables = 10011,
  kBadInverse = 10012,
  kBadTheta = 10013,
};

constexpr int64_t kMostBlocks = INT32_MAX;  // of a grid, and so the tokens of a launch
constexpr int64_t kMostParts = 65535;       // of a token: a grid's third size
constexpr int64_t kPairBytes = 8;           // (cos, sin)

// How many tokens there are of what: batch elements, frames, rows, columns.
struct Video {
  int64_t size[4];
  int64_t tokens() const { return size[0] * size[1] * size[2] * size[3]; }
  bool empty() const { return size[0] == 0 || size[1] == 0 || size[2] == 0 || size[3] == 0; }
};

struct Options {
  int64_t dim, tables;
  int inverse, dtype;
  bool norm;
};

// Whether the product fits, which then is in `product`.
bool multiply(int64_t a, int64_t b, int64_t& product) { return !__builtin_mul_overflow(a, b, &product); }

// 0, or why these arguments are refused.
int check(const RotaryArguments& a, const Video& video, const Options& options) {
  const int64_t dim = options.dim;
  for (const int64_t size : video.size)
    if (size < 0) return kNegativeSize;
  if (dim < 0) return kNegativeSize;
  if (options.dtype != kF32 && options.dtype != kF16 && options.dtype != kBF16) return kUnknownType;
  if (dim % 2 != 0) return kOddDim;
  if (options.tables != 1 && options.tables != video.size[0]) return kBadTables;
  if (options.inverse != 0 && options.inverse != 1) return kBadInverse;
  if (!(a.eps >= 0.0f && a.eps <= 3.402823466e38f)) return kBadEps;
  if (a.round_first != 0 && a.round_first != 1) return kBadRoundFirst;

  // Pairs of the tables are counted in 32 bits, elements in 64, with room for bytes and the sum of four tensors.
  int64_t positions = 0, pairs = 0, tokens = 1;
  for (int axis = 1; axis < 4; ++axis)
    if (__builtin_add_overflow(positions, video.size[axis], &positions)) return kTooLarge;
  if (!multiply(positions, dim / 6 + 1, pairs) || !multiply(pairs, options.tables, pairs)) return kTooLarge;
  if (pairs > INT32_MAX || dim > INT32_MAX) return kTooLarge;
  for (const int64_t size : video.size)
    if (!video.empty() && !multiply(tokens, size, tokens)) return kTooLarge;

  const bool empty = video.empty() || dim == 0;
  const int64_t size = options.dtype == kF32 ? 4 : 2;
  for (const TensorArguments& tensor : a.tensor) {
    const bool absent = &tensor != a.tensor && tensor.x == nullptr && tensor.out == nullptr;  // k
    if (absent) continue;
    int64_t bytes = 0;
    for (const int64_t stride : {tensor.out_stride, tensor.x_stride}) {
      if (tokens == 1) continue;  // there is no next one, and the stride may be anything
      if (stride < dim) return kStrideTooSmall;
      if (!multiply(tokens, stride, bytes) || !multiply(bytes, 4 * size, bytes)) return kTooLarge;
    }
    if (!empty && (tensor.out == nullptr || tensor.x == nullptr)) return kNullPointer;
    if (!divides(size, tensor.out) || !divides(size, tensor.x) || !divides(size, tensor.weight)) return kMisaligned;
  }
  if (!empty && a.table == nullptr) return kNullPointer;
  return divides(kPairBytes, a.table) ? 0 : kMisaligned;
}

// The bytes of the widest access that every token of every tensor is a whole number of, from an aligned address on.
int widest_access(const RotaryArguments& a, int tensors, int64_t tokens, int size) {
  for (const int bytes : {16, 4}) {
    bool fits = int64_t{a.dim} * size % bytes == 0;
    for (int t = 0; t < tensors; ++t) {
      const TensorArguments& tensor = a.tensor[t];
      fits = fits && divides(bytes, tensor.out) && divides(bytes, tensor.x) && divides(bytes, tensor.weight);
      // One token has no next one, and its stride may be anything.
      for (const int64_t stride : {tensor.out_stride, tensor.x_stride})
        fits = fits && (tokens == 1 || stride * size % bytes == 0);
    }
    if (fits) return bytes;
  }
  return size;
}

// What all launches of a call have in common.
struct Plan {
  const void* kernel;
  int arch, threads, tokens_per_block, size;
  unsigned tensors, parts;  // of the grid, beside the tokens
  cudaStream_t stream;
};

void skip_tokens(RotaryArguments& a, int64_t tokens, int64_t size) {
  for (TensorArguments& tensor : a.tensor) {
    if (tensor.x == nullptr) continue;
    tensor.out = static_cast<char*>(tensor.out) + tokens * tensor.out_stride * size;
    tensor.x = static_cast<const char*>(tensor.x) + tokens * tensor.x_stride * size;
  }
}

// One launch, but for more tokens than a grid has blocks for: these are cut along the outermost axis that has a length.
int launch_video(RotaryArguments a, const Video& video, const Plan& plan) {
  const int64_t tokens = video.tokens();
  if (tokens > kMostBlocks) {
    int axis = 0;
    while (video.size[axis] == 1) ++axis;
    const int64_t size = video.size[axis], inner = tokens / size, step = inner < kMostBlocks ? kMostBlocks / inner : 1;
    for (int64_t done = 0; done < size; done += step) {
      Video part = video;
      part.size[axis] = size - done < step ? size - done : step;
      RotaryArguments rest = a;
      skip_tokens(rest, done * inner, plan.size);
      if (axis == 0) {
        rest.table = static_cast<const char*>(a.table) + done * int64_t{a.table_stride} * kPairBytes;
      } else {
        rest.axis_start[axis - 1] += static_cast<uint32_t>(done) * a.entries;
      }
      if (const int error = launch_video(rest, part, plan)) return error;
    }
    return cudaSuccess;
  }
  a.tokens = static_cast<uint32_t>(tokens);
  for (int i = 0; i < 3; ++i) {
    a.size[i] = static_cast<uint32_t>(video.size[i + 1]);
    a.by_size[i] = Divisor(a.size[i]);
  }
  void* parameters[] = {&a};
  const dim3 grid(static_cast<unsigned>((tokens + plan.tokens_per_block - 1) / plan.tokens_per_block), plan.tensors,
                  plan.parts);
  return cleared(launch_dependent(plan.kernel, plan.arch, grid, plan.threads, parameters, 0, plan.stream));
}

int launch(RotaryArguments a, const Video& video, const Options& options, void* stream) {
  if (const int error = check(a, video, options)) return error;
  if (video.empty() || options.dim == 0) return cudaSuccess;
  a.dim = static_cast<int>(options.dim);
  const int type = options.dtype, size = type == kF32 ? 4 : 2, tensors = a.tensor[1].x != nullptr ? 2 : 1;
  const auto kernel_of = type == kF32 ? rope3d_kernel_f32 : type == kF16 ? rope3d_kernel_f16 : rope3d_kernel_bf16;
  const int64_t tokens = video.tokens();
  const int access = widest_access(a, tensors, tokens, size);

  int arch = 0;
  if (const cudaError_t error = code_arch(rope3d_table_kernel(), arch)) return error;
  const int64_t bytes = 2 * tensors * tokens * a.dim * size;
  const Tuning* tuning = find_rope3d_tuning(options.norm, arch, access, tensors, options.dim * size / access, bytes,
                                            options.tables != 1);
  if (tuning == nullptr) return kNoCode;
  const Layout& layout = tuning->layout;
  Plan plan = {};
  plan.kernel = kernel_of(layout, access, options.norm);
  plan.arch = arch;
  plan.threads = layout.threads < 128 ? 128 : layout.threads;
  plan.tokens_per_block = plan.threads / layout.threads;
  plan.size = size;
  plan.tensors = static_cast<unsigned>(tensors / layout.tensors);
  const int64_t pairs_per_access = access > 2 * size ? access / (2 * size) : 1, packs = layout.threads * layout.packs;
  const int64_t parts = options.norm ? 1 : (a.dim / 2 + packs * pairs_per_access - 1) / (packs * pairs_per_access);
  if (parts > kMostParts) return kTooLarge;
  plan.parts = static_cast<unsigned>(parts);
  plan.stream = static_cast<cudaStream_t>(stream);

  a.entries = static_cast<uint32_t>(a.dim / 6 + 1);
  a.axis_start[0] = 0;
  a.axis_start[1] = static_cast<uint32_t>(video.size[1]) * a.entries;
  a.axis_start[2] = a.axis_start[1] + static_cast<uint32_t>(video.size[2]) * a.entries;
  const int64_t positions = video.size[1] + video.size[2] + video.size[3];
  a.table_stride = options.tables == 1 ? 0 : static_cast<uint32_t>(positions) * a.entries;
  a.first_slot = static_cast<uint32_t>(3 - a.dim % 6 / 2);
  a.sin_sign = options.inverse != 0 ? -1.0f : 1.0f;
  a.inverse_dim = 1.0f / static_cast<float>(a.dim);
  return launch_video(a, video, plan);
}

}  // namespace

// Rotates q and k [batch * frames * height * width, dim], tokens in this order: the pair (x, y) of elements 2i and 2i
// + 1 becomes (x cos - y sin, y cos + x sin). dim % 6 elements in front stay; from there on pair 3 * frequency + axis
// turns with the position on the axis (frame, row, column). table [tables, frames + height + width, dim / 6 + 1, 2]
// is what rope3d_table_launch makes; tables is batch, or 1 for a table that all share. k and k_out may be null, for q
// alone. inverse: the rotation back, which is also the gradient's. dtype: 0 f32, 1 f16, 2 bf16. Strides are elements
// from token to token. Returns 0, a cudaError_t, or a code that rope3d_error explains; with such a code nothing was
// launched. An empty tensor launches nothing and returns 0.
extern "C" int rope3d_launch(void* q_out, void* k_out, const void* q, const void* k, const void* table, int64_t batch,
                             int64_t frames, int64_t height, int64_t width, int64_t dim, int64_t tables,
                             int64_t q_out_stride, int64_t k_out_stride, int64_t q_stride, int64_t k_stride,
                             int inverse, int dtype, void* stream) {
  RotaryArguments a = {};
  a.tensor[0] = {q_out, q, nullptr, q_out_stride, q_stride};
  a.tensor[1] = {k_out, k, nullptr, k_out_stride, k_stride};
  a.table = table;
  return launch(a, {{batch, frames, height, width}}, {dim, tables, inverse, dtype, false}, stream);
}

// The same where they lie.
extern "C" int rope3d_in_place_launch(void* q, void* k, const void* table, int64_t batch, int64_t frames,
                                      int64_t height, int64_t width, int64_t dim, int64_t tables, int64_t q_stride,
                                      int64_t k_stride, int inverse, int dtype, void* stream) {
  return rope3d_launch(q, k, q, k, table, batch, frames, height, width, dim, tables, q_stride, k_stride, q_stride,
                       k_stride, inverse, dtype, stream);
}

// Rotates rms_norm(q) * q_weight and rms_norm(k) * k_weight; the norms are over the dim elements of a token. A weight
// [dim] may be null, for 1. round_first: see RotaryArguments. The rest as rope3d_launch.
extern "C" int qk_norm_rope3d_launch(void* q_out, void* k_out, const void* q, const void* k, const void* q_weight,
                                     const void* k_weight, const void* table, int64_t batch, int64_t frames,
                                     int64_t height, int64_t width, int64_t dim, int64_t tables, int64_t q_out_stride,
                                     int64_t k_out_stride, int64_t q_stride, int64_t k_stride, float eps,
                                     int round_first, int dtype, void* stream) {
  RotaryArguments a = {};
  a.tensor[0] = {q_out, q, q_weight, q_out_stride, q_stride};
  a.tensor[1] = {k_out, k, k_weight, k_out_stride, k_stride};
  a.table = table;
  a.eps = eps, a.round_first = round_first;
  return launch(a, {{batch, frames, height, width}}, {dim, tables, 0, dtype, true}, stream);
}

// The same where they lie.
extern "C" int qk_norm_rope3d_in_place_launch(void* q, void* k, const void* q_weight, const void* k_weight,
                                              const void* table, int64_t batch, int64_t frames, int64_t height,
                                              int64_t width, int64_t dim, int64_t tables, int64_t q_stride,
                                              int64_t k_stride, float eps, int round_first, int dtype, void* stream) {
  return qk_norm_rope3d_launch(q, k, q, k, q_weight, k_weight, table, batch, frames, height, width, dim, tables,
                               q_stride, k_stride, q_stride, k_stride, eps, round_first, dtype, stream);
}

// table [tables, positions, dim / 6 + 1, 2] of fp32 (cos, sin): of each position (1, 0), and then of each of the
// dim / 6 frequencies the turn by frequency * (2 * coordinate - 1), an angle of up to 2^50. coords [tables, positions]
// of fp32 are the model's grid: what the positions of the frames, then of the rows, then of the columns are after
// scaling. Frames that a pipeline puts in front as conditions are positions like any other. frequencies [dim / 6] of
// fp32 may be null: they are theta ** linspace(0, 1, dim / 6) * pi / 2, in the model's fp32 steps.
extern "C" int rope3d_table_launch(void* table, const void* coords, const void* frequencies, int64_t tables,
                                   int64_t positions, int64_t dim, float theta, void* stream) {
  if (tables < 0 || positions < 0 || dim < 0) return kNegativeSize;
  if (dim % 2 != 0) return kOddDim;
  if (!(theta > 0.0f && theta <= 3.402823466e38f)) return kBadTheta;
  TableArguments a = {};
  a.count = dim / 6;
  int64_t bytes = 0;
  if (!multiply(positions, a.count + 1, bytes) || !multiply(bytes, tables, bytes)) return kTooLarge;
  if (bytes > INT32_MAX || dim > INT32_MAX) return kTooLarge;
  if (!divides(kPairBytes, table) || !divides(4, coords) || !divides(4, frequencies)) return kMisaligned;
  if (tables == 0 || positions == 0) return cudaSuccess;  // of no elements there is still the entry (1, 0)
  if (table == nullptr || coords == nullptr) return kNullPointer;

  a.frequencies = frequencies;
  a.step = a.count > 1 ? 1.0f / static_cast<float>(a.count - 1) : 0.0f;
  a.log2_theta = std::log2(static_cast<double>(theta));
  const int64_t all = tables * positions;
  const int threads = a.count < 128 ? 128 : 256;
  for (int64_t done = 0; done < all; done += kMostBlocks) {
    a.positions = all - done < kMostBlocks ? all - done : kMostBlocks;
    a.table = static_cast<char*>(table) + done * (a.count + 1) * kPairBytes;
    a.coords = static_cast<const float*>(coords) + done;
    void* parameters[] = {&a};
    const dim3 grid(static_cast<unsigned>(a.positions));
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    const void* kernel = rope3d_table_kernel();
    if (const cudaError_t error = cleared(cudaLaunchKernel(kernel, grid, dim3(threads), parameters, 0, on))) return error;
  }
  return cudaSuccess;
}

// What a launcher's return value means.
extern "C" const char* rope3d_error(int code) {
  switch (code) {
    case kNegativeSize: return "batch, frames, height, width, positions, tables and dim must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "only k with k_out, weights and frequencies may be null pointers when there are elements";
    case kStrideTooSmall: return "a token's stride must be at least dim";
    case kBadEps: return "eps must be finite and not negative";
    case kBadRoundFirst: return "round_first must be 0 or 1";
    case kMisaligned: return "a pointer must be a multiple of its elements' size, the table of 8 bytes";
    case kTooLarge: return "more than 64-bit addresses can tell, 2^31 pairs in the tables, or 65535 blocks a token";
    case kNoCode: return "the code was compiled for an architecture before sm_75";
    case kOddDim: return "dim must be even";
    case kBadTables: return "tables must be batch, or 1 for a shared one";
    case kBadInverse: return "inverse must be 0 or 1";
    case kBadTheta: return "theta must be positive and finite";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace rope3d
