// The tuning table: which kernel runs a launch, by the code's architecture, the size of its accesses and the width of a
// row.
//
// All data, and one lookup: a launch takes the first row that fits it. RMS_NORM_BACKWARD_LAYOUTS says what is compiled;
// a row that names anything else, or is too narrow for its rows, does not compile.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "arch.h"

namespace rmsnorm_backward {
using namespace common;

constexpr int kMostBlocksOfACluster = 8;  // more are not portable
constexpr int kMostWarps = 24;            // of a block
constexpr int kSharedBlocks = 2;          // on an SM, of the blocks that rows share
constexpr int kGroupedThreads = 768;      // of a block that rows of several warps share, at most

// What is compiled for accesses of 16 bytes: X(threads, packs, blocks, first, last), where blocks of them are to stand
// on an SM (which bounds the registers) and code of the architectures from `first` to `last` uses it. A pack of 16-bit
// elements takes a thread 20 registers (x, dy and weight, and eight sums), one of f32 16. With one pack a thread and 128
// threads or more, a row has as many warps as it or its part of a block needs, up to that number: no layout lies between two.
// Rows of up to 32 threads share a block: `blocks` counts 128 threads there, and two blocks have them all. Those of
// kGroupedThreads share one too.
#define RMS_NORM_BACKWARD_LAYOUTS(X) \
  X(8, 1, 10, 75, kNewest)           \
  X(16, 1, 10, 75, kNewest)          \
  X(16, 2, 7, 75, kNewest)           \
  X(8, 3, 5, 75, kNewest)            \
  X(16, 3, 5, 75, kNewest)           \
  X(32, 2, 7, 75, kNewest)           \
  X(32, 3, 5, 75, kNewest)           \
  X(32, 4, 4, 75, kNewest)           \
  X(32, 5, 3, 75, kNewest)           \
  X(768, 1, 2, 75, kNewest)          \
  X(448, 1, 3, 75, kNewest)          \
  X(512, 1, 2, 75, kNewest)          \
  X(512, 2, 2, 75, kNewest)          \
  X(512, 4, 1, 75, 89)
// The same for rows that the blocks of a cluster share.
#define RMS_NORM_BACKWARD_SHARED_LAYOUTS(X) \
  X(768, 1, 2, 90, kNewest)                 \
  X(512, 2, 2, 90, kNewest)                 \
  X(512, 4, 1, 90, kNewest)
// For rows that begin or end between multiples of 16 bytes, at the same place in all tensors. One of the elements beside the
// packs takes a thread 8 registers more, 48 in all: an SM has twice 640 of these threads.
#define RMS_NORM_BACKWARD_UNALIGNED_LAYOUTS(X) \
  X(16, 1, 9, 75, kNewest)                     \
  X(16, 2, 6, 75, kNewest)                     \
  X(32, 2, 6, 75, kNewest)                     \
  X(32, 3, 4, 75, kNewest)                     \
  X(32, 4, 3, 75, kNewest)                     \
  X(32, 5, 3, 80, kNewest)                     \
  X(32, 7, 2, 75, kNewest)                     \
  X(640, 1, 2, 75, kNewest)
#define RMS_NORM_BACKWARD_UNALIGNED_SHARED_LAYOUTS(X) X(640, 1, 2, 90, kNewest)
// What is compiled for smaller accesses.
#define RMS_NORM_BACKWARD_NARROW_LAYOUTS(X) X(32, 4, 4, 75, kNewest)

// The most threads of a block that rows share, from a layout's `blocks`. Each block leaves a row of partial sums: by blocks of
// 128 threads 104167 x 128 took 24.0 us, by these 23.2.
constexpr __host__ __device__ int shared_block_threads(int blocks) { return blocks * 128 / kSharedBlocks; }

// Whether a row's next one is copied to shared memory meanwhile, 32 bytes a pack. Rows of a block in two packs a thread or more, and of
// a cluster in four, are prefetched into L2 instead, which takes less.
constexpr __host__ __device__ bool is_copied(int threads, int resident, bool shared) {
  return threads > 32 && (resident == 1 || (resident == 2 && shared));
}

struct Tuning {
  int arch;       // of the compiled code: this one and later ones
  int access;     // 16 bytes, kUnaligned, or 4 for all that is smaller
  int64_t packs;  // accesses a row, at most; whole ones
  int threads;    // of a block, that share a row; at most, where each has one pack and they are 128 or more
  int resident;   // packs of each in registers; 0: the row is read twice
  int cluster;    // blocks that share a row which is too wide for one, 1 to 8
  int element = 4;  // bytes of one, at most
};

constexpr int kUnaligned = 8;  // 16 bytes, but for the ends of a row
constexpr int64_t kAnyWidth = INT64_MAX;

constexpr Tuning kTuning[] = {
    // 20 KB in flight an SM fill the latency of an H100; each layout has 32 KB or more. Measured on an H200, % of a copy of dy, x and
    // dx, bf16: 96 at 16384 x 3072, 90 at 8192 x 4096, 98 at 262144 x 128, 79 at 5376 x 2048 (66 MB); 99 without dw, whose
    // sums cost 2.5 to 4 us: the end of one kernel and another one, the less the fewer the rows of partial sums.
    // Other cards have the same rows, an estimate: 5 KB in flight an SM of a T4 and 11 to 15 KB of an A100 are enough.
    {75, 16, 8, 8, 1, 1},      // heads of 64
    {75, 16, 16, 16, 1, 1},    // heads of 128; 32 x 1 takes 12 % longer, 8 x 2 3 %
    {75, 16, 24, 8, 3, 1},
    {75, 16, 32, 16, 2, 1},    // heads of 256, f32 heads of 128; by 32 x 1 256 takes 2 % less, 192 6 % longer
    // A warp a row: no barrier, fewer rows of partial sums. 26041 x 512 24.0 us (two warps of one pack a thread 26.3),
    // 23149 x 576 24.8 (29.3), 13021 x 1024 24.2 (25.9), 81000 x 1216 147.6 (158.3). 8681 x 1536 as long as by six warps.
    {75, 16, 48, 16, 3, 1},    // us of 200 MB: 264 columns 56.0 (32 x 2 64.5), 328 53.0 (57.4)
    {75, 16, 64, 32, 2, 1},
    {75, 16, 96, 32, 3, 1},
    {75, 16, 128, 32, 4, 1},
    {75, 16, 160, 32, 5, 1},
    // Two blocks an SM, of 40 registers a thread and several rows at a time: 2048 x 2048 11.7 us (12.0 where each row has a block of its
    // own), 1024 x 3072 9.6 (11.7), 16384 x 3072 78.3 (79.9). One block an SM, of 64 registers: 11.0, 11.9, 79.7.
    {75, 16, 384, 768, 1, 1},
    {75, 16, 448, 448, 1, 1},
    {75, 16, 512, 512, 1, 1},   // 1024 x 4096 11.4 us; by three blocks an SM, of 40 registers, 12.5
    {75, 16, 768, 768, 1, 1, 2},  // 8192 x 5120 66.8 us; two packs a thread 70.0, but f32 16384 x 3072 147 (157)
    {75, 16, 1024, 512, 2, 1},  // 8192, f32 4096
    // A row over several blocks: with two blocks an SM, one's loads are under way at the other's barrier. 914 x 13128 over four
    // blocks of one pack a thread takes 42 us, over two of two packs 32.
    {90, 16, 1280, 768, 1, 2, 2},  // 4000 x 10240 67.3 us; two packs a thread 70.9
    {90, 16, 2048, 512, 2, 2},   // 16384: 81.6 %, where one block of 512 x 4 had 69
    {90, 16, 4096, 512, 2, 4},   // 32768
    {90, 16, 8192, 512, 2, 8},   // 65536: 92.3 %, where a block that reads rows twice had 31
    {90, 16, 16384, 512, 4, 8},  // f32 65536; one block an SM
    {75, 16, 2048, 512, 4, 1},
    {75, 16, kAnyWidth, 512, 0, 1},
    // Rows that are no whole packs. Measured, % of a copy, in brackets accesses of one element: 398292 x 81 82 (29), 51837 x 171
    // 75 (21), 17110 x 1420 71 (44), 7377 x 3521 62 (28).
    {75, kUnaligned, 16, 16, 1, 1},
    {75, kUnaligned, 32, 16, 2, 1},  // by 32 x 1 88889 x 150 takes 8 % longer
    // A warp a row: 40041 x 333 28.5 us (two warps of one pack a thread 40.2), 19047 x 700 26.0 (34.2), 29837 x 1193 59.4
    // (67.5), 7843 x 1700 28.2 (32.1).
    {75, kUnaligned, 64, 32, 2, 1},
    {75, kUnaligned, 96, 32, 3, 1},
    {75, kUnaligned, 128, 32, 4, 1},
    {80, kUnaligned, 160, 32, 5, 1},
    {75, kUnaligned, 224, 32, 7, 1},
    {75, kUnaligned, 640, 640, 1, 1},
    {90, kUnaligned, 1280, 640, 1, 2},
    {90, kUnaligned, 2560, 640, 1, 4},
    {90, kUnaligned, 5120, 640, 1, 8},
    {75, kUnaligned, kAnyWidth, 512, 0, 1},  // by smaller accesses
    {75, 4, 128, 32, 4, 1},
    {75, 4, 1024, 128, 0, 1},
    {75, 4, kAnyWidth, 512, 0, 1},
};

// Whether a warp has a row, in several packs a thread.
constexpr bool is_row_a_warp(const Tuning& row) { return row.access != 4 && row.threads == 32 && row.resident > 1; }

// The row for code of `arch`; null where there is none, which is below the oldest. Of few rows, no more than blocks, each is a
// block's: 300 x 1216 takes 4.4 us so, by warps 5.9.
constexpr const Tuning* find_rms_norm_backward_tuning(int arch, int access, int64_t packs, int size, bool few = false) {
  for (const Tuning& row : kTuning)
    if (row.arch <= arch && row.access == (access < 4 ? 4 : access) && packs <= row.packs && size <= row.element &&
        !(few && is_row_a_warp(row)))
      return &row;
  return nullptr;
}

// Whether a row lies in the registers of several blocks.
constexpr bool shares_rows(const Tuning& row) {
  return row.resident > 0 && static_cast<int64_t>(row.threads) * row.resident < row.packs;
}

// Whether a row, or its part, has as many warps as it needs, and how many threads.
constexpr bool has_any_warps(const Tuning& row) { return row.resident == 1 && row.threads >= 128; }
constexpr int block_threads(const Tuning& row, int64_t packs) {
  return has_any_warps(row) ? static_cast<int>((packs - 1) / (32 * row.cluster) + 1) * 32 : row.threads;
}

// How many rows of so many packs a block has at once at most.
constexpr int most_rows(const Tuning& row, int64_t packs) {
  if (row.threads == kGroupedThreads) return kGroupedThreads / block_threads(row, packs);
  if (row.threads > 32) return 1;
#define RMS_NORM_BACKWARD_ROWS(THREADS, PACKS, BLOCKS, FIRST, LAST) \
  if (row.threads == THREADS && row.resident == PACKS) return shared_block_threads(BLOCKS) / THREADS;
  if (row.access == kUnaligned) {
    RMS_NORM_BACKWARD_UNALIGNED_LAYOUTS(RMS_NORM_BACKWARD_ROWS)
  } else if (row.access == 16) {
    RMS_NORM_BACKWARD_LAYOUTS(RMS_NORM_BACKWARD_ROWS)
  } else {
    RMS_NORM_BACKWARD_NARROW_LAYOUTS(RMS_NORM_BACKWARD_ROWS)
  }
#undef RMS_NORM_BACKWARD_ROWS
  return 0;
}

// How many blocks go over the rows, and so how many rows of partial sums there may be: what stands on `sms` SMs at once,
// or fewer where as many rounds do. Of rows that several blocks share, `clusters` are resident at once; 0: the card does not
// say, and then as many as on an H100, in proportion. kernel.toml states the same, for an H100.
constexpr int64_t fast_blocks(int64_t rows, int64_t row_bytes, int size, int64_t sms, int64_t clusters) {
  const bool whole = row_bytes % 16 == 0;
  const int64_t packs = row_bytes < 16 ? 1 : row_bytes / 16;
  const int64_t a_row = whole ? (packs <= 1024 ? 1 : packs <= 2048 ? 2 : packs <= 4096 ? 4 : 8)
                              : (packs <= 640 ? 1 : packs <= 1280 ? 2 : packs <= 2560 ? 4 : 8);
  if (rows < 1) return 1;
  if (packs <= (whole ? 384 : 224)) {  // rows share blocks, whose size the launcher chooses
    const bool of_warps = packs <= (whole ? 160 : 224);
    if (of_warps && packs > 32 && rows <= 4 * sms) return rows;  // few rows have one each
    // A block an SM where it has them all at once: 200 x 3072 5.3 us, by 200 blocks 6.7.
    if (!of_warps && rows <= sms * (kGroupedThreads / 32 / ((packs - 1) / 32 + 1))) return rows < sms ? rows : sms;
    const int64_t most = whole ? kSharedBlocks * sms : (kSharedBlocks * sms + 7) / 8 * 8;
    return rows < most ? rows : most;
  }
  // Of 48 registers a thread an SM has 42 warps, of 40 it has 48. Rows of whole packs: three blocks of 13 or 14 warps an SM, two of 15
  // and more.
  const int64_t warps = (packs - 1) / (32 * a_row) + 1;
  const bool any_warps = !whole      ? packs <= 5120
                         : size == 2 ? packs <= 768 || (packs > 1024 && packs <= 1280)
                                     : packs <= 512;
  const int64_t an_sm = any_warps ? (!whole ? 42 : warps > 16 ? 48 : 44) / warps : packs <= 8192 ? 2 : 1;
  // A cluster that finds no place begins when another has done all its rows.
  const int64_t estimate = (sms - (a_row == 8 ? 12 : a_row == 4 ? 8 : 0)) * an_sm / a_row;
  const int64_t most = clusters > 0 ? clusters : estimate > 0 ? estimate : 1;
  const int64_t rounds = (rows - 1) / most + 1;
  const int64_t blocks = (rows - 1) / rounds + 1;
  if (whole || rounds == 1) return blocks * a_row;
  // A multiple of 8, after which rows begin at the same place again.
  const int64_t eights = (blocks + 7) / 8 * 8, most_eights = most < 8 ? 8 : most - most % 8;
  return (eights < most_eights ? eights : most_eights) * a_row;
}

constexpr bool is_compiled(const Tuning& row, int arch) {
  if (row.resident == 0) return row.threads >= 32 && row.threads <= 512 && row.threads % 32 == 0 && row.cluster == 1;
  if (row.cluster < 1 || row.cluster > kMostBlocksOfACluster || row.cluster > 1 != shares_rows(row)) return false;
#define RMS_NORM_BACKWARD_SAME(THREADS, PACKS, BLOCKS, FIRST, LAST) \
  if (row.threads == THREADS && row.resident == PACKS) return arch >= FIRST && arch <= LAST;
  if (row.access == kUnaligned && shares_rows(row)) {
    RMS_NORM_BACKWARD_UNALIGNED_SHARED_LAYOUTS(RMS_NORM_BACKWARD_SAME)
  } else if (row.access == kUnaligned) {
    RMS_NORM_BACKWARD_UNALIGNED_LAYOUTS(RMS_NORM_BACKWARD_SAME)
  } else if (shares_rows(row)) {
    RMS_NORM_BACKWARD_SHARED_LAYOUTS(RMS_NORM_BACKWARD_SAME)
  } else if (row.access == 16) {
    RMS_NORM_BACKWARD_LAYOUTS(RMS_NORM_BACKWARD_SAME)
  } else {
    RMS_NORM_BACKWARD_NARROW_LAYOUTS(RMS_NORM_BACKWARD_SAME)
  }
#undef RMS_NORM_BACKWARD_SAME
  return false;
}

constexpr bool table_is_sound() {
  for (const Tuning& row : kTuning) {
    for (const int arch : kTunedArchs) {  // what is found where a row of the table ends
      const Tuning* found = find_rms_norm_backward_tuning(arch, row.access, row.packs, row.element);
      if (found == nullptr || !is_compiled(*found, arch)) return false;
    }
    if (row.resident > 0 && static_cast<int64_t>(row.threads) * row.resident * row.cluster < row.packs) return false;
  }
  for (const int access : {16, kUnaligned, 4})  // every launch finds a row
    if (find_rms_norm_backward_tuning(kOldest, access, kAnyWidth, 4) == nullptr) return false;
  return true;
}
static_assert(table_is_sound(), "a row of the table names a layout that is not compiled or is too narrow");

}  // namespace rmsnorm_backward
