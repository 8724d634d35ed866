// The tuning table: which kernel runs a launch, by the code's architecture, the operation and the width of a row.
//
// All data, and one lookup: a launch takes the first row that fits it, of its architecture or an older one. A row that
// names what is not compiled, or is too narrow for its rows, does not compile.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "arch.h"

namespace softmax {
using namespace common;

enum Operation : int { kSoftmax, kCrossEntropy, kCrossEntropyBackward };

// How the work of a row is laid out.
struct Layout {
  int threads;      // of a block that share a row. Fewer than 128: a block has 128. Else, where softmax has 1 to 4 packs a
                    // thread: at most, in as many warps as the row needs
  int packs;        // that each holds in registers; 0: the row is streamed (softmax: read twice)
  int cluster = 1;  // blocks of so many threads that share a row; more than one from sm_90 on, and 8 at most
};

// What softmax has for rows in registers: X(threads, packs, cluster, kept, first, last), where a thread keeps so many
// exponentials at most, and code of the architectures from `first` to `last` uses it.
#define SOFTMAX_LAYOUTS(X)      \
  X(4, 2, 1, 32, 75, kNewest)   \
  X(4, 3, 1, 32, 75, kNewest)   \
  X(8, 1, 1, 32, 75, kNewest)   \
  X(8, 2, 1, 32, 75, kNewest)   \
  X(8, 3, 1, 32, 75, kNewest)   \
  X(8, 4, 1, 32, 75, kNewest)   \
  X(16, 1, 1, 32, 90, kNewest)  \
  X(16, 3, 1, 32, 75, kNewest)  \
  X(16, 4, 1, 32, 75, kNewest)  \
  X(32, 3, 1, 32, 75, kNewest)  \
  X(32, 4, 1, 32, 75, kNewest)  \
  X(32, 5, 1, 40, 75, kNewest)  \
  X(64, 4, 1, 32, 75, kNewest)  \
  X(128, 2, 1, 32, 75, kNewest) \
  X(256, 2, 1, 32, 75, kNewest) \
  X(256, 4, 1, 32, 75, kNewest) \
  X(512, 2, 1, 32, 90, kNewest) \
  X(512, 4, 1, 16, 75, kNewest) \
  X(512, 8, 1, 32, 75, kNewest) \
  X(1024, 8, 1, 32, 75, 89)     \
  X(512, 8, 2, 32, 90, kNewest) \
  X(512, 8, 4, 32, 90, kNewest) \
  X(512, 5, 8, 32, 90, kNewest) \
  X(512, 8, 8, 32, 90, kNewest) \
  X(1024, 8, 8, 32, 90, kNewest)

// What a launch's rows let accesses be: of 16 bytes; the same, where rows also begin at multiples of 16 bytes and are whole numbers of
// them; of one element, where two tensors' rows are not aligned alike.
enum Rows : int { kWide = 1, kWhole = 2, kNarrow = 3 };

struct Tuning {
  int arch;  // of the compiled code: this one and later ones
  Operation operation;
  Rows kind;      // kWide: whole ones too
  bool few;       // for no more rows than the card holds at once in blocks, or clusters, of the layout
  int64_t packs;  // accesses a row, at most
  Layout layout;
};

constexpr int64_t kAny = INT64_MAX;
constexpr bool kFew = true, kMany = false;

constexpr Tuning kTuning[] = {
    // Rows that a block holds: 98 to 99.6 % of a copy of the same bytes on an H100, 92 % for 128 columns. Softmax's
    // arithmetic, two exponentials an element at most, is under half of what an SM does in the time that memory takes:
    // 16 exponentials a clock on 132 SMs at 1.7 GHz are 3.6e12 a second, and 3.35 TB/s bring and take 0.8e12 elements.
    // One warp or less a row: no barrier. At the memory's rate an SM has 300 instructions for 512 bytes read, which is what limits: few
    // threads a row, with up to four packs each. Where all rows are on the card at once, the time that one of them takes counts: more
    // threads.
    {90, kSoftmax, kWide, kFew, 16, {16, 1}},
    {90, kSoftmax, kWide, kFew, 64, {32, 4}},
    // H200, us (four packs a thread, or what is said): 561224 x 139 84.2 (92.0), 588235 x 136 83.6 (88.7), 833333 x 96 76.0 (78.7),
    // 250000 x 320 77.4 (80.7), 125000 x 640 77.2 (80.7), 69444 x 1152 77.2 (128 x 2 85.4), 29838 x 1576 47.4 (128 x 2 49.4), 500 x
    // 5120 4.6 (256 x 4 5.3). Exponentials computed again leave room for more blocks: 1442 x 13376 21.0 (kept 23.3).
    // H200, us of 96 MB (each thread with a maximum of its own, elements one at a time): 136 columns 24.9 (26.7), 264 25.2 (27.1), 520
    // 25.2 (27.3), 131 by 8 x 2 25.7 (4 x 4 30.8), 101 26.9 (4 x 3 29.6), 65 by 8 x 1 29.9 (4 x 2 32.2), 2600 by 256 x 4 24.8 (256 x 2
    // 26.3). Rows of 9 and 10 packs: 4 x 3 25.7 (8 x 2 27.5).
    {75, kSoftmax, kWhole, kMany, 8, {4, 2}},
    {75, kSoftmax, kWhole, kMany, 12, {4, 3}},
    {75, kSoftmax, kWide, kMany, 5, {4, 2}},
    {75, kSoftmax, kWide, kMany, 8, {8, 1}},
    {75, kSoftmax, kWide, kMany, 10, {4, 3}},
    {75, kSoftmax, kWide, kMany, 16, {8, 2}},  // heads, routers
    {75, kSoftmax, kWide, kMany, 24, {8, 3}},
    {75, kSoftmax, kWide, kMany, 32, {8, 4}},
    {75, kSoftmax, kWide, kMany, 48, {16, 3}},
    {75, kSoftmax, kWide, kMany, 64, {16, 4}},
    {75, kSoftmax, kWide, kMany, 96, {32, 3}},
    {75, kSoftmax, kWide, kMany, 128, {32, 4}},
    {75, kSoftmax, kWide, kMany, 160, {32, 5}},
    {75, kSoftmax, kWide, kMany, 192, {128, 2}},
    {75, kSoftmax, kWide, kMany, 224, {64, 4}},
    {75, kSoftmax, kWide, kMany, 256, {128, 2}},  // many small blocks overlap one row's stores with another's loads
    {75, kSoftmax, kWide, kMany, 384, {256, 4}},
    {75, kSoftmax, kWide, kMany, 512, {256, 2}},
    {90, kSoftmax, kWide, kFew, 1024, {512, 2}},
    {75, kSoftmax, kWide, kMany, 1024, {256, 4}},
    // Few rows, as in decoding: a row a block would leave SMs without work. An H100 has room for 62 clusters of four
    // blocks of 512 threads, two an SM, and for 30 of eight; the launcher asks the card. Estimates.
    {90, kSoftmax, kWide, kFew, 20480, {512, 5, 8}},
    {90, kSoftmax, kWide, kFew, 16384, {512, 8, 4}},
    {75, kSoftmax, kWide, kMany, 2048, {512, 4}},
    {75, kSoftmax, kWide, kMany, 4096, {512, 8}},  // 16-bit rows stay packed from here on, exponentials come twice
    // A cluster's blocks hold what one cannot, still two an SM, so that one's loads overlap another's stores. One block
    // of 1024 threads an SM, which loads and then stores, was 16 % below a copy at a vocabulary of 50,257 (H200), and
    // rows of 128,256 read twice 34 %: those in flight are more than the L2 holds. With clusters 98 and 99 % (H100); four
    // blocks for 50,257 columns 85 %.
    {90, kSoftmax, kWide, kMany, 8192, {512, 8, 2}},
    // Fewer registers than with 8 packs, so a third block an SM: 99 % of a copy at 128,256, where four of 8 packs had 98, and
    // 12 % faster than eight of 8 packs for 64 rows of 151,936 (H100).
    {90, kSoftmax, kWide, kMany, 20480, {512, 5, 8}},  // 163,840 elements of 16 bits
    {90, kSoftmax, kWide, kMany, 32768, {512, 8, 8}},
    {90, kSoftmax, kWide, kMany, 65536, {1024, 8, 8}},  // one block an SM, but no second reading
    {75, kSoftmax, kWide, kMany, 8192, {1024, 8}},  // 65,536 elements of 16 bits: one row an SM, 64 registers a thread
    // Read twice. With one block an SM an A100's 108 rows of 256 KB are 28 of its L2's 40 MB, and with two they are more
    // than that. An estimate. A T4's 4 MB hold neither: there two blocks, so that one's loads overlap another's stores.
    {80, kSoftmax, kWide, kMany, kAny, {1024, 0}},
    {75, kSoftmax, kWide, kMany, kAny, {512, 0}},
    {75, kSoftmax, kNarrow, kMany, 1024, {128, 0}},
    {75, kSoftmax, kNarrow, kMany, kAny, {512, 0}},
    // Streamed: 512 threads with 4 packs in flight are 32 KB a block, and 20 KB an SM fill the memory's latency.
    {75, kCrossEntropy, kWide, kMany, 256, {32, 0}},
    {75, kCrossEntropy, kWide, kMany, kAny, {512, 0}},
    // No reduction: blocks share a row, two packs a thread, as many as geglu's backward has in flight.
    {75, kCrossEntropyBackward, kWide, kMany, 128, {32, 0}},
    {75, kCrossEntropyBackward, kWide, kMany, kAny, {256, 0}},
    {75, kCrossEntropyBackward, kNarrow, kMany, 128, {32, 0}},
    {75, kCrossEntropyBackward, kNarrow, kMany, kAny, {256, 0}},
};

// The row for code of `arch`; null where there is none, which is below the oldest. are_few(row): whether the launch's rows
// are few for that one.
template <typename F>
constexpr const Tuning* find_softmax_tuning(int arch, Operation operation, Rows kind, int64_t packs, F are_few) {
  for (const Tuning& row : kTuning)
    if (row.arch <= arch && row.operation == operation && (row.kind == kind || (row.kind == kWide && kind == kWhole)) &&
        packs <= row.packs && (!row.few || are_few(row)))
      return &row;
  return nullptr;
}

constexpr bool is_compiled(const Tuning& row, int arch) {
  const Layout& layout = row.layout;
  if (layout.packs == 0 && layout.cluster != 1) return false;
  if (row.operation == kCrossEntropy) return row.kind != kNarrow && (layout.threads == 32 || layout.threads == 512);
  if (row.operation == kCrossEntropyBackward) return layout.threads == 32 || layout.threads == 256;
  if (layout.packs == 0) return layout.threads == 512 || layout.threads == (row.kind != kNarrow ? 1024 : 128);
#define SOFTMAX_SAME(THREADS, PACKS, CLUSTER, KEPT, FIRST, LAST)                       \
  if (layout.threads == THREADS && layout.packs == PACKS && layout.cluster == CLUSTER) \
    return row.kind != kNarrow && arch >= FIRST && arch <= LAST;
  SOFTMAX_LAYOUTS(SOFTMAX_SAME)
#undef SOFTMAX_SAME
  return false;
}

constexpr bool table_is_sound() {
  for (const Tuning& row : kTuning) {
    const int64_t resident = static_cast<int64_t>(row.layout.threads) * row.layout.packs * row.layout.cluster;
    if (resident > 0 && resident < row.packs) return false;
    // What is found where a row of the table ends.
    for (const int arch : kTunedArchs) {
      const auto as_row = [&](const Tuning&) { return row.few; };
      const Tuning* found = find_softmax_tuning(arch, row.operation, row.kind, row.packs, as_row);
      if (found == nullptr || !is_compiled(*found, arch)) return false;
    }
  }
  for (const Operation operation : {kSoftmax, kCrossEntropy, kCrossEntropyBackward})  // every launch finds a row
    for (const Rows kind : {kWide, kNarrow})
      if ((kind != kNarrow || operation != kCrossEntropy) &&
          find_softmax_tuning(kOldest, operation, kind, kAny, [](const Tuning&) { return false; }) == nullptr)
        return false;
  return true;
}
static_assert(table_is_sound(), "a row of the tuning table names a layout that is not compiled or is too narrow");

}  // namespace softmax
