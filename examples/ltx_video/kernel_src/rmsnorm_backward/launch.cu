// The launcher: it checks every argument, picks a kernel from the tuning table and launches it, and behind it the one
// that adds the blocks' sums of dw.
//
// Rows are any distance apart, elements of a row side by side. No output may overlap an input. Nothing here waits for
// the device.
#include <cuda_runtime.h>

#include <cstdint>
#include <iterator>

#include "arguments.h"
#include "dependent.cuh"
#include "kernels.h"
#include "launcher.h"

namespace rmsnorm_backward {
using namespace common;

namespace {

// What rms_norm's launcher refuses too has the same code.
enum OwnErrorCode : int {
  kBadEps = 10005,
  kMisaligned = 10007,
  kTooLarge = 10008,
  kNoCode = 10009,
  kBadBlocks = 10010,
  kNoScratch = 10011,
};

struct Matrix {
  const void* data;
  int64_t stride;  // elements
};

// 0, or why these arguments are refused.
int check(const Arguments& a, const WeightGradientArguments& w, const float* scratch, int type) {
  if (a.rows < 0 || a.width < 0) return kNegativeSize;
  if (type != kF32 && type != kF16 && type != kBF16) return kUnknownType;
  if (!(a.eps >= 0.0f && a.eps <= 3.402823466e38f)) return kBadEps;
  if (w.blocks < 1 || w.blocks > INT32_MAX) return kBadBlocks;
  const int64_t size = type == kF32 ? 4 : 2;
  const bool empty = a.rows == 0 || a.width == 0;
  for (const Matrix& matrix : {Matrix{a.dx, a.dx_stride}, Matrix{a.dy, a.dy_stride}, Matrix{a.x, a.x_stride}}) {
    int64_t bytes = 0;
    if (matrix.stride < a.width) return kStrideTooSmall;
    // With room for the step from a block's last rows, up to 80, to those behind the end.
    if (__builtin_mul_overflow(a.rows, matrix.stride, &bytes) || __builtin_mul_overflow(bytes, 4 * size, &bytes) ||
        __builtin_mul_overflow(w.blocks * 80, matrix.stride, &bytes) || __builtin_mul_overflow(bytes, 4 * size, &bytes)) {
      return kTooLarge;
    }
    if (!empty && matrix.data == nullptr) return kNullPointer;
    if (!divides(size, matrix.data)) return kMisaligned;
  }
  int64_t sums = 0;
  if (__builtin_mul_overflow(w.blocks, a.width, &sums) || __builtin_mul_overflow(sums, 4, &sums)) return kTooLarge;
  const bool sums_needed = w.dw != nullptr || w.dw_f32 != nullptr;
  if (!empty && sums_needed && scratch == nullptr) return kNoScratch;
  return divides(size, a.weight) && divides(size, w.dw) && divides(4, w.dw_f32) && divides(4, scratch) ? 0 : kMisaligned;
}

// The bytes of the widest access that every row of every tensor is a whole number of, from an aligned address on.
int widest_access(const Arguments& a, int size) {
  for (const int bytes : {16, 4}) {
    // Sums lie as far apart as elements of fp32 do.
    bool fits = a.width * size % bytes == 0 && divides(bytes, a.weight) && divides(bytes, a.partial);
    for (const Matrix& matrix : {Matrix{a.dx, a.dx_stride}, Matrix{a.dy, a.dy_stride}, Matrix{a.x, a.x_stride}})
      fits = fits && divides(bytes, matrix.data) && matrix.stride * size % bytes == 0;
    if (fits) return bytes;
  }
  return size;
}

auto kernels_of(int type) {
  return type == kF32   ? rms_norm_backward_kernel_f32
         : type == kF16 ? rms_norm_backward_kernel_f16
                        : rms_norm_backward_kernel_bf16;
}

// After how many rows those of all tensors begin at the same place between multiples of 16 bytes again; 0 where the tensors
// differ in that place.
int64_t period_of(const Arguments& a, int size) {
  const int64_t n = 16 / size;
  for (const Matrix& matrix : {Matrix{a.dy, a.dy_stride}, Matrix{a.x, a.x_stride}}) {
    const auto apart = reinterpret_cast<uintptr_t>(matrix.data) - reinterpret_cast<uintptr_t>(a.dx);
    if (apart % 16 != 0 || (matrix.stride - a.dx_stride) % n != 0) return 0;
  }
  int64_t period = 1;
  while (a.dx_stride * period % n != 0) period *= 2;
  return period;
}

// How many blocks go over the rows, or clusters, and how many rows each has at once.
struct RowGroups {
  int64_t groups;
  int64_t at_once;
};

// Up to so many blocks: the whole clusters, the last with blocks beyond the caller's number where that is no multiple. They
// have no more rows than as many rounds need, so that few rows come to many SMs. Where a block goes on to other rows, these are
// a multiple of `period` behind; no group where there are too few for that.
RowGroups row_groups(const Tuning& tuning, int64_t packs, int64_t rows, int64_t blocks, int64_t period) {
  const int64_t most = most_rows(tuning, packs), in_warp = tuning.threads < 32 ? 32 / tuning.threads : 1;
  int64_t groups = (blocks - 1) / tuning.cluster + 1;
  if (groups > rows) groups = rows;
  const int64_t rounds = (rows - 1) / (groups * most) + 1;
  int64_t at_once = ((rows - 1) / (rounds * groups) / in_warp + 1) * in_warp;
  const int64_t needed = (rows - 1) / at_once + 1;
  if (needed <= groups) return {needed, at_once};
  if (groups * at_once % period != 0 && at_once >= period) at_once -= at_once % period;
  while (groups * at_once % period != 0) --groups;
  return {groups, at_once};
}

// How many clusters of the layout for rows of so many bytes the current device holds at once; 0 where it says nothing, or
// a row is a block's.
int clusters_of(int64_t row_bytes, int type) {
  const auto kernel_of = kernels_of(type);
  const int access = row_bytes % 16 == 0 ? 16 : kUnaligned;
  const int64_t packs = row_bytes / 16;
  int arch = 0, clusters = 0;
  if (code_arch(kernel_of({0, 0, 0, 512, 0, 1}, size_of(type)), arch) != cudaSuccess) return 0;
  const Tuning* tuning = find_rms_norm_backward_tuning(arch, access, packs, size_of(type));
  if (tuning == nullptr || !shares_rows(*tuning)) return 0;
  static OfDevice known[3][std::size(kTuning)][kMostWarps + 1];
  const int threads = block_threads(*tuning, packs);
  OfDevice& slot = known[type][tuning - kTuning][threads / 32];
  const auto error = clusters_at_once(slot, kernel_of(*tuning, access), tuning->cluster, threads, clusters);
  return error == cudaSuccess ? clusters : 0;
}

// Launches a kernel in clusters. If `overlaps`, it may begin before the end of the kernel before it, for which it waits. Code
// below sm_90 does not wait, and must not begin early, on a newer card neither.
int launch(const void* kernel, bool overlaps, int64_t blocks, int threads, int cluster, int shared, void** parameters,
           cudaStream_t stream) {
  cudaLaunchAttribute attributes[2] = {};
  int count = 0;
  if (cluster > 1) attributes[count++] = in_clusters(cluster);
  if (overlaps) attributes[count++] = dependent();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks)), config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = stream, config.attrs = attributes, config.numAttrs = static_cast<unsigned>(count);
  return cleared(cudaLaunchKernelExC(&config, kernel, parameters));
}

// Launches the rows' kernel, and answers in `blocks` how many rows of partial sums it writes, one a cluster.
int launch_rows(Arguments a, int type, int arch, int64_t& blocks, cudaStream_t stream) {
  const int size = size_of(type);
  int access = widest_access(a, size);
  const bool few = a.rows <= blocks;
  int64_t packs = a.width * size / access;
  RowGroups over = {0, 1};
  const auto find = [&](int of, int64_t packs_of) {
    const Tuning* found = find_rms_norm_backward_tuning(arch, of, packs_of, size, few);
    // rms_norm_backward_blocks counts rows in 31 bits.
    const bool fits = found == nullptr || found->threads <= 32 || a.rows <= INT32_MAX;
    return fits ? found : find_rms_norm_backward_tuning(arch, of, kAnyWidth, size);
  };
  const Tuning* tuning = find(access, packs);
  if (tuning == nullptr) return kNoCode;
  if (const int64_t period = access < 16 ? period_of(a, size) : 0; period > 0) {
    const int64_t whole = a.width * size / 16;
    const Tuning* unaligned = find(kUnaligned, whole);
    if (unaligned != nullptr && unaligned->resident > 0) over = row_groups(*unaligned, whole, a.rows, blocks, period);
    if (over.groups > 0) tuning = unaligned, access = kUnaligned, packs = whole;
  }
  if (over.groups == 0) over = row_groups(*tuning, packs, a.rows, blocks, 1);
  const int64_t groups = over.groups;
  a.row_threads = block_threads(*tuning, packs);
  const int threads = a.row_threads * static_cast<int>(over.at_once);
  a.step = groups * over.at_once;
  a.dx_step = a.step * a.dx_stride, a.dy_step = a.step * a.dy_stride, a.x_step = a.step * a.x_stride;
  blocks = groups;
  const void* kernel = kernels_of(type)(*tuning, access);
  // A place for each of a block's packs, and then for each of its sums, with the padding of slot_of.
  const bool copied = is_copied(tuning->threads, tuning->resident, tuning->cluster > 1);
  const int shared = !copied ? 0 : threads * (access == kUnaligned && size == 2 ? 36 : 32 * tuning->resident);
  void* parameters[] = {&a};
  // Not of a block's row with two packs a thread: with the overlap 626 x 8192 took 21.8 us, before it 20.0. Of one pack,
  // 3291 x 512 8.1 and 12.6, with other layouts, and 1024 x 4096 15.4 and 15.3. Of a warp's row, 5144 x 696 9.8 and 10.5.
  const bool overlaps = arch >= 90 && (tuning->resident == 1 || tuning->threads <= 32) && tuning->cluster == 1;
  return launch(kernel, overlaps, groups * tuning->cluster, threads, tuning->cluster, shared, parameters, stream);
}

// The threads of a block of weight_gradient. Small ones come while the rows' kernel is still there, and larger ones have more of
// the partial sums in flight at once. H200, us by 128, 256, 512 and 1,024 threads: of 250 rows of partial sums (1500 x 1280) 9.3, 8.4,
// 8.0, 7.9; of 342 (1024 x 4096) 14.7, 14.0, 13.1, 14.3; of 512 (1024 x 2048) 8.7, 8.4, 10.2, 9.1; of 768 (5376 x 2048) 27.5, 24.7,
// 23.5, 22.8. Their number alone decides, so that the order of the sum is the same everywhere.
constexpr int weight_gradient_threads(int64_t blocks) { return blocks <= 128 ? 128 : blocks <= 400 ? 512 : blocks <= 576 ? 256 : 1024; }

int launch_weight_gradient(WeightGradientArguments a, int type, int arch, cudaStream_t stream) {
  constexpr int64_t kColumns = 8, kMostBlocks = INT32_MAX;
  const void* kernel = type == kF32   ? weight_gradient_kernel_f32()
                       : type == kF16 ? weight_gradient_kernel_f16()
                                      : weight_gradient_kernel_bf16();
  const int threads = weight_gradient_threads(a.blocks);
  const int64_t grid = (a.width + kColumns - 1) / kColumns;
  if (grid > kMostBlocks) return kTooLarge;
  void* parameters[] = {&a};
  return launch(kernel, arch >= 90, grid, threads, 1, 0, parameters, stream);
}

}  // namespace

// The gradient of out = xhat * (weight + weight_offset) with xhat = x / rms(x), from dy and x alone; with
// g = dy * (weight + weight_offset):
//
//   dx [rows, width] = (g - xhat * mean(g * xhat)) / rms(x)
//   dw [width]       = sum over the rows of dy * xhat, in the type, in fp32 (dw_f32), in both or in neither: null
//
// weight [width] may be null, for 1. scratch [blocks, width] is memory for partial sums of dw, with any contents; null
// where nobody asks for dw. blocks is how many thread blocks go over the rows, at least 1, up to the next whole cluster
// where the card has clusters: rms_norm_backward_blocks says what is fast. The same number of blocks gives the same bits, for
// rows that begin at the same places between multiples of 16 bytes.
// dtype: 0 f32, 1 f16, 2 bf16. Returns 0, a cudaError_t, or a code that rms_norm_backward_error explains; with such a code
// nothing was launched. Without rows dw is zero.
extern "C" int rms_norm_backward_launch(void* dx, void* dw, void* dw_f32, void* scratch, const void* dy, const void* x,
                                        const void* weight, int64_t rows, int64_t width, int64_t blocks,
                                        int64_t dx_stride, int64_t dy_stride, int64_t x_stride, float eps,
                                        float weight_offset, int dtype, void* stream) {
  const bool sums = dw != nullptr || dw_f32 != nullptr;
  Arguments a = {};
  a.dx = dx, a.dy = dy, a.x = x, a.weight = weight;
  a.partial = sums ? static_cast<float*>(scratch) : nullptr;
  a.rows = rows, a.width = width;
  // One row has no next one, and its stride may be anything.
  const bool one = rows == 1;
  a.dx_stride = one ? width : dx_stride, a.dy_stride = one ? width : dy_stride, a.x_stride = one ? width : x_stride;
  a.eps = eps, a.weight_offset = weight != nullptr ? weight_offset : 0.0f;
  WeightGradientArguments w = {dw, static_cast<float*>(dw_f32), static_cast<const float*>(scratch), blocks, width};
  if (const int error = check(a, w, static_cast<const float*>(scratch), dtype)) return error;
  if (width == 0 || (rows == 0 && !sums)) return cudaSuccess;
  const cudaStream_t on = static_cast<cudaStream_t>(stream);
  const int size = size_of(dtype);
  a.inverse_width = 1.0f / static_cast<float>(width);
  int arch = 0;
  if (const cudaError_t error = code_arch(kernels_of(dtype)({0, 0, 0, 512, 0, 1}, size), arch)) return error;
  if (rows == 0) {
    w.blocks = 0;
  } else if (const int error = launch_rows(a, dtype, arch, w.blocks, on)) {
    return error;
  }
  return sums ? launch_weight_gradient(w, dtype, arch, on) : cudaSuccess;
}

// The number of blocks that is fast on a card of so many SMs, the current device: by shape and card. scratch then has that
// many times `width` elements of fp32. 1 where a size is negative or the type unknown, which the launcher refuses.
extern "C" int64_t rms_norm_backward_blocks(int64_t rows, int64_t width, int dtype, int64_t sms) {
  if (rows < 1 || width < 1 || sms < 1 || width > INT64_MAX / 4 || sms > INT32_MAX / 16) return 1;
  if (dtype != kF32 && dtype != kF16 && dtype != kBF16) return 1;
  const int64_t row_bytes = width * size_of(dtype);
  return fast_blocks(rows, row_bytes, size_of(dtype), sms, clusters_of(row_bytes, dtype));
}

// What the launcher's return value means.
extern "C" const char* rms_norm_backward_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows and width must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "dx, dy and x must not be null pointers when there are elements";
    case kStrideTooSmall: return "a row stride must be at least width";
    case kBadEps: return "eps must be finite and not negative";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "rows or blocks times stride is more than 64-bit addresses can tell, or width more than a grid";
    case kNoCode: return "the code was compiled for an architecture before sm_75";
    case kBadBlocks: return "blocks must be at least 1 and at most 2^31 - 1";
    case kNoScratch: return "dw needs scratch: blocks times width elements of fp32";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace rmsnorm_backward
