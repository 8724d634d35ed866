// The launcher: it checks every argument, parts the rows into groups, and launches the kernel that sums them, and behind it
// the one that adds the groups, unless they are clusters.
//
// Rows are any distance apart, elements of a row side by side. No output may overlap an input. Nothing here waits for the
// device.
#include <cuda_runtime.h>

#include <cstdint>

#include "arguments.h"
#include "kernels.h"
#include "launcher.h"
#include "tuning.h"

namespace column_sum {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kMisaligned = 10005,
  kTooLarge = 10006,
  kBadGroups = 10007,
  kNoScratch = 10008,
};

constexpr int64_t kMostGroups = 65535;  // blocks of a grid in y

// 0, or why these arguments are refused.
int check(const ColumnSumArguments& a, int64_t groups, const float* scratch, int type) {
  if (a.rows < 0 || a.width < 0) return kNegativeSize;
  if (type != kF32 && type != kF16 && type != kBF16) return kUnknownType;
  if (groups < 1 || groups > kMostGroups) return kBadGroups;
  if (a.stride < a.width) return kStrideTooSmall;
  const int64_t size = type == kF32 ? 4 : 2;
  int64_t rows = 0, bytes = 0, sums = 0;
  // With room for a thread's last step, which goes beyond the rows.
  if (__builtin_add_overflow(a.rows, 32 * kThreads, &rows) || __builtin_mul_overflow(rows, a.stride, &bytes) ||
      __builtin_mul_overflow(bytes, size, &bytes) || __builtin_mul_overflow(groups + 32 * kThreads, a.width, &sums) ||
      __builtin_mul_overflow(sums, 4, &sums) || a.width > INT32_MAX) {
    return kTooLarge;
  }
  const bool empty = a.rows == 0 || a.width == 0;
  if (!empty && a.x == nullptr) return kNullPointer;
  if (a.width != 0 && a.out == nullptr && a.out_f32 == nullptr) return kNullPointer;
  if (!empty && groups > 1 && scratch == nullptr) return kNoScratch;
  return divides(size, a.x) && divides(size, a.out) && divides(4, a.out_f32) && divides(4, scratch) ? 0 : kMisaligned;
}

// The bytes of the widest access that every row is a whole number of, from an aligned address on.
int widest_access(const ColumnSumArguments& a, int size) {
  for (const int bytes : {16, 4})
    if (a.width * size % bytes == 0 && divides(bytes, a.x) && a.stride * size % bytes == 0) return bytes;
  return size;
}

auto kernels_of(int type) {
  return type == kF32   ? column_sum_kernel_f32
         : type == kF16 ? column_sum_kernel_f16
                        : column_sum_kernel_bf16;
}

// Answers in `clusters` whether the loaded code has clusters.
cudaError_t has_clusters(int type, bool& clusters) {
  int arch = 0;
  const cudaError_t error = code_arch(kernels_of(type)(16), arch);
  clusters = arch >= 90 && arch < 120;
  return error;
}

int launch_rows(const ColumnSumArguments& a, int type, int access, cudaStream_t stream) {
  const int64_t columns = a.lanes * (access / (type == kF32 ? 4 : 2)), strips = (a.width - 1) / columns + 1;
  const dim3 grid(static_cast<unsigned>(strips), static_cast<unsigned>(a.groups));
  cudaLaunchAttribute attribute = in_clusters(1);
  attribute.val.clusterDim.y = static_cast<unsigned>(a.groups);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = dim3(kThreads), config.stream = stream;
  config.attrs = &attribute, config.numAttrs = a.partial == nullptr && a.groups > 1 ? 1 : 0;
  void* parameters[] = {const_cast<ColumnSumArguments*>(&a)};
  return cleared(cudaLaunchKernelExC(&config, kernels_of(type)(access), parameters));
}

int launch_groups(const ColumnSumArguments& a, int type, cudaStream_t stream) {
  constexpr int64_t kColumns = 8;
  const void* kernel = type == kF32   ? add_groups_kernel_f32()
                       : type == kF16 ? add_groups_kernel_f16()
                                      : add_groups_kernel_bf16();
  int threads = 64;
  while (threads < 512 && threads / kColumns * 4 < a.groups) threads *= 2;  // about four groups a thread
  // Its launch overlaps the end of the kernel before it, whose sums it waits for. Code below sm_90 does not wait: it must
  // not begin early, on a newer card neither.
  int arch = 0;
  if (const cudaError_t error = code_arch(kernel, arch)) return error;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>((a.width + kColumns - 1) / kColumns));
  config.blockDim = dim3(threads), config.stream = stream, config.attrs = &attribute, config.numAttrs = arch >= 90 ? 1 : 0;
  void* parameters[] = {const_cast<ColumnSumArguments*>(&a)};
  return cleared(cudaLaunchKernelExC(&config, kernel, parameters));
}

}  // namespace

// out [width] = the sum over the rows of x [rows, width], in the type, in fp32 (out_f32), or in both; either may be null.
// stride: elements from row to row. groups: into how many groups the rows are parted, 1 to 65535: column_sum_groups says
// what is fast. scratch [groups, width] is fp32 memory for the groups' sums, with any contents; null for one group. The
// same number of groups gives the same bits. dtype: 0 f32, 1 f16, 2 bf16. Returns 0, a cudaError_t, or a code that
// column_sum_error explains; with such a code nothing was launched. Without rows the sums are zero.
extern "C" int column_sum_launch(void* out, void* out_f32, void* scratch, const void* x, int64_t rows, int64_t width,
                                 int64_t groups, int64_t stride, int dtype, void* stream) {
  ColumnSumArguments a = {};
  a.x = x, a.out = out, a.out_f32 = static_cast<float*>(out_f32);
  a.rows = rows, a.width = width, a.stride = rows == 1 ? width : stride;  // one row has no next one
  float* const sums = static_cast<float*>(scratch);
  if (const int error = check(a, groups, sums, dtype)) return error;
  if (width == 0) return cudaSuccess;
  const cudaStream_t on = static_cast<cudaStream_t>(stream);
  const int size = dtype == kF32 ? 4 : 2, access = widest_access(a, size);
  // As many rows a group, and as many groups as that leaves with rows.
  a.rows_per_group = rows == 0 ? 1 : (rows - 1) / groups + 1;
  a.groups = rows == 0 ? 1 : static_cast<int>((rows - 1) / a.rows_per_group + 1);
  bool clusters = false;
  if (const cudaError_t error = has_clusters(dtype, clusters)) return error;
  clusters = clusters && access == 16 && is_cluster(a.groups);
  a.lanes = clusters ? lanes_in_clusters(width * size / access) : lanes_of(width * size / access);
  a.partial = a.groups > 1 && !clusters ? sums : nullptr;
  if (const int error = launch_rows(a, dtype, access, on)) return error;
  return a.partial != nullptr ? launch_groups(a, dtype, on) : cudaSuccess;
}

// The number of groups that is fast on a card of so many SMs: by the shape, and by whether the code that the current device
// runs has clusters. 1 where a size is not positive or the type unknown, which the launcher refuses.
extern "C" int64_t column_sum_groups(int64_t rows, int64_t width, int dtype, int64_t sms) {
  if (rows < 1 || width < 1 || sms < 1 || width > INT32_MAX || sms > 8192 || dtype < kF32 || dtype > kBF16) return 1;
  const int64_t row_bytes = width * size_of(dtype);
  bool clusters = false;
  if (has_clusters(dtype, clusters) != cudaSuccess) clusters = true;  // no card says: as an H100
  return fast_groups(rows, (row_bytes + 15) / 16, sms, clusters && row_bytes % 16 == 0);
}

// What the launcher's return value means.
extern "C" const char* column_sum_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows and width must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "x must not be a null pointer when there are elements, nor both outputs when there are columns";
    case kStrideTooSmall: return "the row stride must be at least width";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "rows or groups times stride is more than 64-bit addresses can tell, or width more than a grid has";
    case kBadGroups: return "groups must be at least 1 and at most 65535";
    case kNoScratch: return "more than one group needs scratch: groups times width elements of fp32";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace column_sum
