// The launchers: they check every argument, pick a kernel from the tuning tables and launch it.
//
// Rows are any distance apart, elements of a row side by side. out and sum may be x or h, with the same stride, but not
// the same one; any other overlap of an output with an input is undefined. Nothing here waits for the device.
#include <cuda_runtime.h>

#include <cstdint>

#include "arguments.h"
#include "dependent.cuh"
#include "kernels.h"
#include "launcher.h"

namespace adaln {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kBadEps = 10005,
  kBadNorm = 10006,
  kMisaligned = 10007,
  kTooLarge = 10008,
  kNoCode = 10009,
  kBadRowsPerModulation = 10010,
  kTableAlone = 10011,
};

enum Operation : int { kNorm, kGatedNorm, kGate };

// A call: Arguments for all rows, and what they do not say.
struct Call {
  Arguments a = {};
  Operation operation = kNorm;
  int64_t rows = 0;
  int64_t rows_per_modulation = 1;
  int type = kF32;
};

struct Matrix {
  const void* data;
  int64_t stride;  // elements; 0: one row for all
  int64_t rows;
  bool needed;
};

// The tensors of a call. x and its like come first.
constexpr int kMatrices = 12;
struct Matrices {
  Matrix all[kMatrices];
  explicit Matrices(const Call& c) : all{} {
    const Arguments& a = c.a;
    const bool gated = c.operation != kNorm, norm = c.operation != kGate;
    const int64_t modulations =
        c.rows_per_modulation > 0 ? c.rows / c.rows_per_modulation + (c.rows % c.rows_per_modulation != 0) : 0;
    int i = 0;
    all[i++] = {a.x, a.x_stride, c.rows, true};
    all[i++] = {a.h, a.h_stride, c.rows, gated};
    all[i++] = {a.sum, a.sum_stride, c.rows, gated};
    all[i++] = {a.out, a.out_stride, c.rows, norm};
    all[i++] = {a.scale, a.scale_stride, modulations, false};
    all[i++] = {a.shift, a.shift_stride, modulations, false};
    all[i++] = {a.gate, a.gate_stride, modulations, false};
    for (const void* row : {a.weight, a.bias, a.scale_table, a.shift_table, a.gate_table}) {
      all[i++] = {row, 0, 1, false};
    }
  }
};

// 0, or why this call is refused.
int check(const Call& c) {
  const Arguments& a = c.a;
  if (c.rows < 0 || a.width < 0) return kNegativeSize;
  if (c.rows_per_modulation < 1) return kBadRowsPerModulation;
  if (c.type != kF32 && c.type != kF16 && c.type != kBF16) return kUnknownType;
  if (!(a.eps >= 0.0f && a.eps <= 3.402823466e38f)) return kBadEps;
  if (a.layer != 0 && a.layer != 1) return kBadNorm;
  if ((a.scale == nullptr && a.scale_table != nullptr) || (a.shift == nullptr && a.shift_table != nullptr) ||
      (a.gate == nullptr && a.gate_table != nullptr)) {
    return kTableAlone;
  }
  const bool empty = c.rows == 0 || a.width == 0;
  const Matrices matrices(c);
  for (const Matrix& m : matrices.all) {
    if (m.needed && m.data == nullptr && !empty) return kNullPointer;
    if (!m.needed && m.data == nullptr) continue;
    int64_t bytes = 0;
    if (m.rows > 1) {  // else there is no next one, and the stride may be anything
      if (m.stride < a.width) return kStrideTooSmall;
      if (__builtin_mul_overflow(m.rows, m.stride, &bytes) || __builtin_mul_overflow(bytes, int64_t{32}, &bytes)) {
        return kTooLarge;  // with room for the sum of the bytes of eight matrices
      }
    }
    if (!divides(size_of(c.type), m.data)) return kMisaligned;
  }
  return 0;
}

// Whether every row of every tensor is a whole number of so many bytes, from a multiple of them on.
bool are_whole(const Call& c, int bytes) {
  const int size = size_of(c.type);
  const Matrices matrices(c);
  bool whole = c.a.width * size % bytes == 0;
  for (const Matrix& m : matrices.all) {
    // One row has no next one, and its stride may be anything.
    whole = whole && (m.data == nullptr || (divides(bytes, m.data) && (m.rows <= 1 || m.stride * size % bytes == 0)));
  }
  return whole;
}

// The accesses that reach nothing but whole rows: of 16 bytes, of 4 or of one element.
int whole_access(const Call& c) { return are_whole(c, 16) ? 16 : are_whole(c, kWord) ? kWord : kElement; }

// The accesses of a call: of 16 bytes if all rows are whole numbers of them; kUnaligned where x and its like are not, but lie
// at the same place between multiples of 16; else of one element.
int widest_access(const Call& c) {
  const int size = size_of(c.type);
  const Matrices matrices(c);
  const bool fits = are_whole(c, 16);
  const bool few = c.a.width <= kLessNarrow && c.rows <= kFewElements / c.a.width;
  if (fits || few || c.a.width <= kNarrowInGroups) return fits ? 16 : kElement;
  const Matrix& x = matrices.all[0];
  for (int i = 1; i < 4; ++i) {
    const Matrix& m = matrices.all[i];
    if (!m.needed) continue;
    const auto apart = reinterpret_cast<uintptr_t>(m.data) - reinterpret_cast<uintptr_t>(x.data);
    if (apart % 16 != 0 || (c.rows > 1 && (m.stride - x.stride) * size % 16 != 0)) return kElement;
  }
  return kUnaligned;
}

template <typename P>
void advance(P& data, int64_t elements, int64_t size) {
  if (data != nullptr) data = reinterpret_cast<P>(reinterpret_cast<uintptr_t>(data) + elements * size);
}

// Rows and blocks are numbered with 31 bits, so more than this goes in several launches.
constexpr int64_t kMost = int64_t{1} << 30;

// The Arguments of a launch for at most `most` rows from `row` on, from a column on. The first of the rows is the first
// of its modulation, or all of them have the same.
Arguments part(const Call& c, int64_t row, int64_t most, int64_t column) {
  Arguments a = c.a;
  const int64_t each = c.rows_per_modulation, left = c.rows - row, size = size_of(c.type);
  int64_t rows = each <= most ? most / each * each : most < each - row % each ? most : each - row % each;
  if (rows > left) rows = left;
  a.rows = static_cast<uint32_t>(rows);
  a.rows_per_modulation = WideDivisor(static_cast<uint32_t>(each < INT32_MAX ? each : INT32_MAX));
  const int64_t modulation = row / each;
  advance(a.x, row * a.x_stride + column, size);
  advance(a.h, row * a.h_stride + column, size);
  advance(a.sum, row * a.sum_stride + column, size);
  advance(a.out, row * a.out_stride + column, size);
  advance(a.scale, modulation * a.scale_stride + column, size);
  advance(a.shift, modulation * a.shift_stride + column, size);
  advance(a.gate, modulation * a.gate_stride + column, size);
  for (const void** table : {&a.weight, &a.bias, &a.scale_table, &a.shift_table, &a.gate_table}) {
    advance(*table, column, size);
  }
  return a;
}

// Bytes of shared memory that the driver takes of each block.
constexpr int64_t kSharedOfDriver = 1024;
// Bytes of shared memory that a kernel for wide rows has of its own, and what each may have beside them without asking.
constexpr int64_t kSharedOfKernel = 256, kSharedOfAll = 48 * 1024 - kSharedOfKernel;

// The most that a block may have on the current device.
cudaError_t shared_of_block(int& bytes) {
  static OfDevice known;
  return known.get(bytes, [](int device, int& found) {
    return cudaDeviceGetAttribute(&found, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  });
}

cudaError_t sms_of_device(int& sms) {
  static OfDevice known;
  return known.get(sms, [](int device, int& found) {
    return cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
  });
}

cudaError_t start(const void* kernel, int arch, int64_t blocks, int threads, int64_t shared, Arguments& a,
                  cudaStream_t stream) {
  if (shared > kSharedOfAll) {
    const auto attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
    // Always the same size: a thread must not lower what another one's launch needs.
    int bytes = 0;
    if (const cudaError_t error = shared_of_block(bytes)) return error;
    bytes -= kSharedOfKernel;
    if (const cudaError_t error = cleared(cudaFuncSetAttribute(kernel, attribute, bytes))) return error;
  }
  void* parameters[] = {&a};
  const dim3 grid(static_cast<unsigned>(blocks));
  return cleared(launch_dependent(kernel, arch, grid, threads, parameters, static_cast<size_t>(shared), stream));
}

// The whole warps that hold a row of so many packs, each thread up to `held` of them.
int threads_for(int64_t packs, int held) {
  return static_cast<int>((packs + 32 * held - 1) / (32 * held)) * 32;
}

int64_t rows_of(const GroupLayout& layout) { return layout.threads < 128 ? 128 / layout.threads * layout.rows : layout.rows; }

// Warps of a block that take rows of their own: in adaln_phases all, if they do not share a row.
int warps_apart(const GroupLayout& layout, int access) { return access == kUnaligned && layout.threads < 128 ? 4 : 1; }

// Every how many rows, as a power of two, one begins at the same place between multiples of 16 bytes: 0 to 3.
int phase_bits(const Call& c) {
  int bits = 0;
  while ((static_cast<uint64_t>(c.a.x_stride) * size_of(c.type) << bits) % 16 != 0) ++bits;
  return bits;
}

// Rows that have their modulation in common; of kUnaligned, those of a block are of one phase (adaln_phases).
int launch_groups(const Call& c, const void* kernel, int arch, const GroupLayout& layout, int access, int bits, int64_t packs,
                  cudaStream_t stream) {
  const int threads = layout.threads < 128 ? 128 : threads_for(packs, layout.packs);
  const uint32_t warps = static_cast<uint32_t>(warps_apart(layout, access));
  const uint32_t rows_of_block = static_cast<uint32_t>(rows_of(layout)) / warps << bits;  // and those of the other phases
  int sms = 0;
  if (const cudaError_t error = sms_of_device(sms)) return error;
  for (int64_t row = 0; row < c.rows;) {
    Arguments a = part(c, row, kMost, 0);
    row += a.rows;
    a.packs = static_cast<uint32_t>(packs);
    a.rows_of_modulation = static_cast<uint32_t>(c.rows_per_modulation < a.rows ? c.rows_per_modulation : a.rows);
    a.sms = static_cast<uint32_t>(sms);
    a.phase_bits = static_cast<uint32_t>(bits);
    a.blocks_of_modulation = (a.rows_of_modulation + rows_of_block - 1) / rows_of_block << bits;
    a.blocks_per_modulation = WideDivisor(a.blocks_of_modulation);
    const int64_t modulations = (int64_t{a.rows} + a.rows_of_modulation - 1) / a.rows_of_modulation;
    const int64_t blocks = (modulations * a.blocks_of_modulation + warps - 1) / warps;
    if (const cudaError_t error = start(kernel, arch, blocks, threads, 0, a, stream)) return error;
  }
  return cudaSuccess;
}

// A row at a time, with whatever modulation it has.
int launch_blocks(const Call& c, const void* kernel, int arch, const Layout& layout, int64_t packs, cudaStream_t stream) {
  const int rows_per_block = layout.threads < 128 ? 128 / layout.threads : 1;
  const int threads = rows_per_block > 1 ? 128 : threads_for(packs, layout.packs);
  int sms = 0;
  if (const cudaError_t error = sms_of_device(sms)) return error;
  for (int64_t row = 0; row < c.rows;) {
    Arguments a = part(c, row, kMost, 0);
    row += a.rows;
    a.packs = static_cast<uint32_t>(packs);
    a.sms = static_cast<uint32_t>(sms);
    const int64_t blocks = (int64_t{a.rows} + rows_per_block - 1) / rows_per_block;
    if (const cudaError_t error = start(kernel, arch, blocks, threads, 0, a, stream)) return error;
  }
  return cudaSuccess;
}

// Code of sm_90 and later, for as few rows as one launch takes.
int launch_cluster(const Call& c, const ClusterLayout& layout, int access, int64_t packs, cudaStream_t stream) {
  const auto kernel_of = c.type == kF32   ? adaln_cluster_kernel_f32
                         : c.type == kF16 ? adaln_cluster_kernel_f16
                                          : adaln_cluster_kernel_bf16;
  Arguments a = part(c, 0, kMost, 0);
  a.packs = static_cast<uint32_t>(packs);
  void* parameters[] = {&a};
  cudaLaunchAttribute attributes[] = {dependent(), in_clusters(layout.blocks)};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(a.rows * layout.blocks), config.blockDim = dim3(layout.threads), config.stream = stream;
  config.attrs = attributes, config.numAttrs = 2;
  return cleared(cudaLaunchKernelExC(&config, kernel_of(layout, access), parameters));
}

// Rows with a scale and a shift, and gated rows with a gate, and all of their tables or none. As launch has it, weight and bias are
// a scale and a shift where they are alone. Whether a kernel was found.
bool launch_modulated(const Call& c, int arch, cudaStream_t stream, int& result) {
  const bool tables = c.a.scale_table != nullptr;
  const Kind kind = c.operation == kGatedNorm ? kGated : tables ? kTables : kAlone;
  if (c.a.weight != nullptr || c.a.bias != nullptr || tables != (c.a.shift_table != nullptr)) return false;
  if (kind == kGated && (c.a.gate == nullptr || tables != (c.a.gate_table != nullptr))) return false;
  const int access = whole_access(c);
  const int64_t packs = access == kElement ? c.a.width : c.a.width * size_of(c.type) / access;
  if (access == 16 && kind == kAlone) {
    const auto kernel_of = c.type == kF32   ? adaln_affine_kernel_f32
                           : c.type == kF16 ? adaln_affine_kernel_f16
                                            : adaln_affine_kernel_bf16;
    const Layout layout = find_affine_layout(packs, c.rows);
    if (layout.threads == 0) return false;
    result = launch_blocks(c, kernel_of(layout), arch, layout, packs, stream);
    return true;
  }
  const UniformTuning* tuning = find_uniform_tuning(access, kind, c.a.layer, packs, c.rows);
  if (tuning == nullptr) return false;
  const int64_t rows = tuning->common.threads == 0 ? 1 : rows_of(tuning->common);
  const bool common = c.rows_per_modulation >= 4 * rows && c.rows >= kGroupBlocksAtLeast * rows;
  const GroupLayout& layout = common ? tuning->common : tuning->own;
  if (layout.threads == 0) return false;
  const auto kernel_of = c.type == kF32   ? adaln_uniform_kernel_f32
                         : c.type == kF16 ? adaln_uniform_kernel_f16
                                          : adaln_uniform_kernel_bf16;
  const void* kernel = kernel_of(layout, access, kind, tables);
  result = layout.rows > 1 ? launch_groups(c, kernel, arch, layout, access, 0, packs, stream)
                           : launch_blocks(c, kernel, arch, {layout.threads, layout.packs}, packs, stream);
  return true;
}

// The places of 16 bytes that a block of adaln_persistent has in shared memory: two for each warp of a row, 12 of the
// elements beside the packs, and for each pack what is kept (in fp32 what rows have in common, else the tables as they are) and a
// place for each tensor of the next row.
int64_t persistent_places(const PersistentLayout& layout, int groups, int64_t packs, int size, bool gated, bool own, bool tables) {
  const int kept = own ? (tables ? 2 + gated : 0) : (2 + gated) * 4 / size;
  const int coming = own ? 3 + 2 * gated : 1 + gated;
  return groups * (2 * layout.threads / 32) + 12 + (kept + groups * coming) * packs;
}

// Many rows of kUnaligned. Whether a kernel was found.
bool launch_persistent(const Call& c, int arch, int64_t packs, cudaStream_t stream, int& result) {
  const bool gated = c.operation == kGatedNorm, own = c.rows_per_modulation == 1, tables = c.a.scale_table != nullptr;
  const int size = size_of(c.type);
  PersistentLayout layout = find_persistent_layout(arch, size == kWord, packs, c.rows, gated, own);
  if (layout.threads == 0) return false;
  const int bits = phase_bits(c);
  if (own) {
    const auto in_phase = [&](const void* data, int64_t stride) {  // with x
      return data != nullptr && (reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(c.a.x)) % 16 == 0 &&
             (stride - c.a.x_stride) * size % 16 == 0;
    };
    if (c.a.weight != nullptr || c.a.bias != nullptr || tables != (c.a.shift_table != nullptr)) return false;
    if (!in_phase(c.a.scale, c.a.scale_stride) || !in_phase(c.a.shift, c.a.shift_stride)) return false;
    if (gated && (tables != (c.a.gate_table != nullptr) || !in_phase(c.a.gate, c.a.gate_stride))) return false;
  }
  int sms = 0, most = 0;
  if ((result = sms_of_device(sms)) || (result = shared_of_block(most))) return true;
  const int64_t of_modulation = own || c.rows_per_modulation > c.rows ? c.rows : c.rows_per_modulation;
  const int64_t modulations = (c.rows + of_modulation - 1) / of_modulation;
  int row_threads = 0, groups = 0;
  int64_t each = 0, shared = 0;  // blocks of a modulation, and what one has of shared memory
  // Whether the card holds the blocks of all modulations at once, and these have five of its eighths or more.
  const auto fits = [&] {
    const auto shared_fits = [&](int blocks) {
      shared = 16 * persistent_places(layout, groups, packs, size, gated, own, tables);
      return shared <= most - kSharedOfKernel && blocks * (shared + kSharedOfDriver) <= most + kSharedOfDriver;
    };
    row_threads = threads_for(packs, layout.packs);
    groups = layout.block / row_threads;
    if (groups > 15) groups = 15;  // a barrier each, beside that of the block
    while (groups > 1 && !shared_fits(1024 / layout.block)) --groups;
    if (groups < 1 || !shared_fits(1)) return false;
    int blocks_of_sm = 1024 / (groups * row_threads);  // as registers allow
    while (blocks_of_sm > 1 && !shared_fits(blocks_of_sm)) --blocks_of_sm;
    const int64_t blocks = int64_t{sms} * blocks_of_sm;
    each = (blocks / modulations >> bits) << bits;  // whole phases
    return 8 * each * modulations >= 5 * blocks;
  };
  if (c.rows > kMost) return false;
  if (!fits()) {
    // H200, adaln 9000 x 3001 with nine modulations: 36.1 us (45.6 by adaln_phases).
    if (packs > kPersistentFiner.threads * kPersistentFiner.packs) return false;
    layout = kPersistentFiner;
    if (!fits()) return false;
  }
  const auto kernel_of = c.type == kF32   ? adaln_persistent_kernel_f32
                         : c.type == kF16 ? adaln_persistent_kernel_f16
                                          : adaln_persistent_kernel_bf16;
  Arguments a = part(c, 0, kMost, 0);
  a.row_threads = row_threads;
  a.rows_of_modulation = static_cast<uint32_t>(of_modulation);
  a.blocks_of_modulation = static_cast<uint32_t>(each);
  a.blocks_per_modulation = WideDivisor(a.blocks_of_modulation);
  result = start(kernel_of(layout, gated, own), arch, modulations * each, groups * row_threads, shared, a, stream);
  return true;
}

int launch_rows(const Call& c, int arch, int access, cudaStream_t stream) {
  const bool gated = c.operation == kGatedNorm;
  const int size = size_of(c.type);
  int64_t packs = access == kElement ? c.a.width : (c.a.width * size + 15) / 16;
  if (!gated) {
    const bool affine = c.a.weight == nullptr && c.a.bias == nullptr && c.a.scale_table == nullptr && c.a.shift_table == nullptr;
    const int of_cluster = access == 16 ? 16 : kElement;
    const int64_t parts = access == 16 ? packs : c.a.width;
    const ClusterLayout cluster = find_cluster_layout(arch, of_cluster, parts, c.rows, !affine);
    if (cluster.blocks != 0) return launch_cluster(c, cluster, of_cluster, parts, stream);
  }
  int result = 0;
  if (access == kUnaligned && launch_persistent(c, arch, packs, stream, result)) return result;
  if (launch_modulated(c, arch, stream, result)) return result;
  const GroupLayout group = find_group_layout(arch, access, packs, c.rows, gated, c.a.layer != 0);
  const int bits = access == kUnaligned ? phase_bits(c) : 0;
  if (group.threads != 0) {
    const int64_t rows = rows_of(group);
    const int64_t least = access == kUnaligned ? 2 * (rows / warps_apart(group, access)) << bits : 4 * rows;
    const bool narrow = access == 16 && group.threads <= 32 && group.rows >= 4 && !gated;
    const int64_t blocks = access == kUnaligned && group.threads >= 128 ? 2 * kGroupBlocksAtLeast
                           : narrow                                      ? kNarrowBlocksAtLeast
                                                                         : kGroupBlocksAtLeast;
    if (c.rows_per_modulation >= least && c.rows >= blocks * rows) {
      const auto kernel_of = c.type == kF32   ? adaln_group_kernel_f32
                             : c.type == kF16 ? adaln_group_kernel_f16
                                              : adaln_group_kernel_bf16;
      return launch_groups(c, kernel_of(group, access, gated), arch, group, access, bits, packs, stream);
    }
  }
  if (access == kUnaligned && c.a.width <= kNarrow) access = kElement, packs = c.a.width;
  const Tuning* tuning = find_adaln_tuning(arch, access, packs, c.rows);
  if (tuning == nullptr) return kNoCode;
  const Layout& layout = gated ? tuning->gated : tuning->alone;
  const auto kernel_of = c.type == kF32 ? adaln_kernel_f32 : c.type == kF16 ? adaln_kernel_f16 : adaln_kernel_bf16;
  const void* kernel = kernel_of(layout, access, gated);
  const bool held = layout.packs > 0;  // in registers
  if (!held && access == kUnaligned) access = kElement, packs = c.a.width;
  const int rows_per_block = held && layout.threads < 128 ? 128 / layout.threads : 1;
  const int threads = rows_per_block > 1 ? 128 : held ? threads_for(packs, layout.packs) : layout.threads;
  int64_t shared = layout.packs == kShared ? packs * (access == 16 ? 16 : 4) : 0;  // a Pack is whole words
  if (shared > kSharedOfAll) {
    int most = 0;
    if (const cudaError_t error = shared_of_block(most)) return error;
    if (shared > most - kSharedOfKernel) shared = 0;  // 99 KB on 8.6, 8.9 and 12.x: the row is read again
  }
  int sms = 0;
  if (const cudaError_t error = sms_of_device(sms)) return error;
  for (int64_t row = 0; row < c.rows;) {
    Arguments a = part(c, row, kMost, 0);
    row += a.rows;
    a.row_in_shared = shared != 0;
    a.sms = static_cast<uint32_t>(threads < 1024 ? 1024 / threads * sms : sms);  // what adaln_unaligned has at a time
    a.packs = static_cast<uint32_t>(packs);  // of adaln_rows: at most 16,384
    const int64_t blocks = (int64_t{a.rows} + rows_per_block - 1) / rows_per_block;
    if (const cudaError_t error = start(kernel, arch, blocks, threads, shared, a, stream)) return error;
  }
  return cudaSuccess;
}

int launch_gate(const Call& c, int arch, int access, cudaStream_t stream) {
  const int64_t per_pack = access == kElement ? 1 : access / size_of(c.type);
  if (arch < kOldest) return kNoCode;
  const auto kernel_of = c.type == kF32   ? gate_residual_kernel_f32
                         : c.type == kF16 ? gate_residual_kernel_f16
                                          : gate_residual_kernel_bf16;
  const bool side_by_side =
      c.rows == 1 || (c.a.x_stride == c.a.width && c.a.h_stride == c.a.width && c.a.sum_stride == c.a.width);
  const bool aligned = divides(16, c.a.x) && divides(16, c.a.h) && divides(16, c.a.sum);
  // Of few elements latency counts, which is less where each has a thread, or each two.
  const bool many = c.rows > (per_pack == 2 ? kFewWords : kFewElements) / c.a.width;
  if (access != 16 && side_by_side && aligned && many && c.rows <= kMost / c.a.width) {
    Arguments a = part(c, 0, kMost, 0);
    a.rows = static_cast<uint32_t>(c.rows);  // all of them, not whole modulations alone
    const int64_t elements = 16 / size_of(c.type);
    a.packs = static_cast<uint32_t>((c.rows * c.a.width + elements - 1) / elements);
    a.packs_per_row = WideDivisor(static_cast<uint32_t>(c.a.width));
    const int64_t blocks = (int64_t{a.packs} + kGateThreads - 1) / kGateThreads;
    return start(kernel_of(kElement, true), arch, blocks, kGateThreads, 0, a, stream);
  }
  const bool flat = access != kElement && side_by_side;
  for (int64_t column = 0; column < c.a.width;) {
    const int64_t left = (c.a.width - column) / per_pack, packs = left < kMost ? left : kMost;
    for (int64_t row = 0; row < c.rows;) {
      Arguments a = part(c, row, kMost / packs, column);
      row += a.rows;
      a.width = packs * per_pack;
      a.packs = static_cast<uint32_t>(a.rows * packs);
      a.packs_per_row = WideDivisor(static_cast<uint32_t>(packs));
      const int64_t blocks = (int64_t{a.packs} + kGateThreads - 1) / kGateThreads;
      // A part of the columns leaves gaps between its rows.
      const void* kernel = kernel_of(access, flat && packs * per_pack == c.a.width);
      if (const cudaError_t error = start(kernel, arch, blocks, kGateThreads, 0, a, stream)) return error;
    }
    column += packs * per_pack;
  }
  return cudaSuccess;
}

int launch(Call& c, void* stream) {
  if (const int error = check(c)) return error;
  if (c.rows == 0 || c.a.width == 0) return cudaSuccess;
  if (c.a.scale == nullptr && c.a.shift == nullptr && c.a.gate == nullptr) c.rows_per_modulation = INT64_MAX;
  // A norm's weight and bias alone are a scale and a shift that all rows have in common.
  c.a.one = 1.0f;
  if (c.a.scale == nullptr && c.a.shift == nullptr) {
    if (c.a.weight != nullptr) c.a.one = 0.0f;
    c.a.scale = c.a.weight, c.a.shift = c.a.bias, c.a.scale_stride = c.a.shift_stride = 0;
    c.a.weight = c.a.bias = nullptr;
  }
  c.a.inverse_width = 1.0f / static_cast<float>(c.a.width);
  const auto kernel_of = c.type == kF32   ? gate_residual_kernel_f32
                         : c.type == kF16 ? gate_residual_kernel_f16
                                          : gate_residual_kernel_bf16;
  int arch = 0;
  if (const cudaError_t error = code_arch(kernel_of(16, true), arch)) return error;
  const auto one = c.operation == kGate ? launch_gate : launch_rows;
  return one(c, arch, c.operation == kGate ? whole_access(c) : widest_access(c), static_cast<cudaStream_t>(stream));
}

}  // namespace

// dtype everywhere: 0 f32, 1 f16, 2 bf16; strides in elements, from row to row. All return 0, a cudaError_t, or a code
// that adaln_error explains; with such a code nothing was launched. An empty tensor launches nothing and returns 0.

// out [rows, width] = (x - mean(x)) * rsqrt(variance(x) + eps) * weight + bias; weight and bias [width] may be null.
extern "C" int layer_norm_launch(void* out, const void* x, const void* weight, const void* bias, int64_t rows,
                                 int64_t width, int64_t out_stride, int64_t x_stride, float eps, int dtype,
                                 void* stream) {
  Call c;
  c.rows = rows, c.type = dtype;
  c.a.out = out, c.a.x = x, c.a.weight = weight, c.a.bias = bias;
  c.a.width = width, c.a.out_stride = out_stride, c.a.x_stride = x_stride;
  c.a.eps = eps, c.a.layer = 1;
  return launch(c, stream);
}

// out = norm(x) * (1 + scale + scale_table) + (shift + shift_table), norm: 0 RMSNorm, 1 LayerNorm, of eps, weight and
// bias. scale and shift have a row for every rows_per_modulation rows of x, the last one perhaps for fewer. weight,
// bias, scale, shift and the tables may be null, for 1, 0, 0, 0 and 0; a table needs its tensor.
extern "C" int adaln_launch(void* out, const void* x, const void* weight, const void* bias, const void* scale,
                            const void* shift, const void* scale_table, const void* shift_table, int64_t rows,
                            int64_t width, int64_t rows_per_modulation, int64_t out_stride, int64_t x_stride,
                            int64_t scale_stride, int64_t shift_stride, float eps, int norm, int dtype, void* stream) {
  Call c;
  c.rows = rows, c.rows_per_modulation = rows_per_modulation, c.type = dtype;
  c.a.out = out, c.a.x = x, c.a.weight = weight, c.a.bias = bias;
  c.a.scale = scale, c.a.shift = shift, c.a.scale_table = scale_table, c.a.shift_table = shift_table;
  c.a.width = width, c.a.out_stride = out_stride, c.a.x_stride = x_stride;
  c.a.scale_stride = scale_stride, c.a.shift_stride = shift_stride;
  c.a.eps = eps, c.a.layer = norm;
  return launch(c, stream);
}

// out = h + x * (gate + gate_table), gate as scale above; a null gate is 1.
extern "C" int gate_residual_launch(void* out, const void* h, const void* x, const void* gate, const void* gate_table,
                                    int64_t rows, int64_t width, int64_t rows_per_modulation, int64_t out_stride,
                                    int64_t h_stride, int64_t x_stride, int64_t gate_stride, int dtype, void* stream) {
  Call c;
  c.operation = kGate;
  c.rows = rows, c.rows_per_modulation = rows_per_modulation, c.type = dtype;
  c.a.sum = out, c.a.h = h, c.a.x = x, c.a.gate = gate, c.a.gate_table = gate_table;
  c.a.width = width, c.a.sum_stride = out_stride, c.a.h_stride = h_stride, c.a.x_stride = x_stride;
  c.a.gate_stride = gate_stride;
  return launch(c, stream);
}

// h += x * (gate + gate_table).
extern "C" int gate_residual_in_place_launch(void* h, const void* x, const void* gate, const void* gate_table,
                                             int64_t rows, int64_t width, int64_t rows_per_modulation, int64_t h_stride,
                                             int64_t x_stride, int64_t gate_stride, int dtype, void* stream) {
  return gate_residual_launch(h, h, x, gate, gate_table, rows, width, rows_per_modulation, h_stride, h_stride, x_stride,
                              gate_stride, dtype, stream);
}

// sum = h + x * (gate + gate_table), rounded to the type; out = adaln(sum). The rest as above.
extern "C" int gate_residual_adaln_launch(void* out, void* sum, const void* h, const void* x, const void* gate,
                                          const void* gate_table, const void* weight, const void* bias,
                                          const void* scale, const void* shift, const void* scale_table,
                                          const void* shift_table, int64_t rows, int64_t width,
                                          int64_t rows_per_modulation, int64_t out_stride, int64_t sum_stride,
                                          int64_t h_stride, int64_t x_stride, int64_t gate_stride, int64_t scale_stride,
                                          int64_t shift_stride, float eps, int norm, int dtype, void* stream) {
  Call c;
  c.operation = kGatedNorm;
  c.rows = rows, c.rows_per_modulation = rows_per_modulation, c.type = dtype;
  c.a.out = out, c.a.sum = sum, c.a.h = h, c.a.x = x;
  c.a.gate = gate, c.a.gate_table = gate_table, c.a.weight = weight, c.a.bias = bias;
  c.a.scale = scale, c.a.shift = shift, c.a.scale_table = scale_table, c.a.shift_table = shift_table;
  c.a.width = width, c.a.out_stride = out_stride, c.a.sum_stride = sum_stride, c.a.h_stride = h_stride;
  c.a.x_stride = x_stride, c.a.gate_stride = gate_stride;
  c.a.scale_stride = scale_stride, c.a.shift_stride = shift_stride;
  c.a.eps = eps, c.a.layer = norm;
  return launch(c, stream);
}

// The same with h as sum: h += x * (gate + gate_table), out = adaln(h).
extern "C" int gate_residual_adaln_in_place_launch(void* out, void* h, const void* x, const void* gate,
                                                   const void* gate_table, const void* weight, const void* bias,
                                                   const void* scale, const void* shift, const void* scale_table,
                                                   const void* shift_table, int64_t rows, int64_t width,
                                                   int64_t rows_per_modulation, int64_t out_stride, int64_t h_stride,
                                                   int64_t x_stride, int64_t gate_stride, int64_t scale_stride,
                                                   int64_t shift_stride, float eps, int norm, int dtype, void* stream) {
  return gate_residual_adaln_launch(out, h, h, x, gate, gate_table, weight, bias, scale, shift, scale_table,
                                    shift_table, rows, width, rows_per_modulation, out_stride, h_stride, h_stride,
                                    x_stride, gate_stride, scale_stride, shift_stride, eps, norm, dtype, stream);
}

// What a launcher's return value means.
extern "C" const char* adaln_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows and width must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "out, sum, h and x must not be null pointers when there are elements";
    case kStrideTooSmall: return "a row stride must be at least width";
    case kBadEps: return "eps must be finite and not negative";
    case kBadNorm: return "norm must be 0 (RMSNorm) or 1 (LayerNorm)";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "rows times stride is more than 64-bit addresses can tell";
    case kNoCode: return "the code was compiled for an architecture before sm_75";
    case kBadRowsPerModulation: return "rows_per_modulation must be at least 1";
    case kTableAlone: return "a table is added to scale, shift or gate, which must not be null then";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace adaln
