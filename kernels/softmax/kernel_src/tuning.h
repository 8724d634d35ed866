// The tuning table: which kernel runs a launch, by the code's architecture, the operation and the width of a row.
//
// All data, and one lookup: a launch takes the first row that fits it. A row that names what is not compiled, or that
// more elements come to than its threads hold, does not compile.
#pragma once
#include <cstdint>
#include <initializer_list>

enum Operation : int { kSoftmax, kCrossEntropy, kCrossEntropyBackward };

// How the work of a row is laid out.
struct Layout {
  int threads;  // that share a row; a block has at least 128
  int packs;    // that each holds in registers; 0: the row is streamed (softmax: read twice)
};

constexpr int kNewest = 999;

// What softmax has for rows in registers: X(threads, packs, first, last), where code of the architectures from `first`
// to `last` uses it. 16 threads at least: a row has up to 14 elements outside its wide accesses, one a thread.
#define SOFTMAX_LAYOUTS(X) \
  X(16, 1, 75, kNewest)    \
  X(32, 4, 75, kNewest)    \
  X(128, 2, 75, kNewest)   \
  X(256, 2, 75, kNewest)   \
  X(256, 4, 75, kNewest)   \
  X(512, 4, 75, kNewest)   \
  X(512, 8, 75, kNewest)   \
  X(1024, 8, 75, kNewest)

struct Tuning {
  int arch;  // of the compiled code: this one and all above it, up to the next in the table
  Operation operation;
  bool wide;      // accesses of 16 bytes; else of one element, where two tensors' rows are not aligned alike
  int64_t packs;  // accesses a row, at most
  Layout layout;
};

constexpr int64_t kAnyWidth = INT64_MAX;
constexpr bool kWide = true, kNarrow = false;

constexpr Tuning kTuning[] = {
    // One set of rows for H100, A100 and T4. Not measured yet: estimates, from what rmsnorm's table measured on an H100
    // of rows that stay in registers. Softmax moves the same bytes, and its arithmetic, two exponentials an element at
    // most, is under half of what an SM of any of the three does in the time that memory takes: 16 exponentials a
    // clock on 132 SMs at 1.7 GHz are 3.6e12 a second, and 3.35 TB/s bring and take 0.8e12 elements of bf16.
    {75, kSoftmax, kWide, 16, {16, 1}},    // heads, routers: a row in half a warp, no barrier
    {75, kSoftmax, kWide, 128, {32, 4}},   // one warp a row needs no barrier
    {75, kSoftmax, kWide, 256, {128, 2}},  // many small blocks overlap one row's stores with another's loads
    {75, kSoftmax, kWide, 512, {256, 2}},
    {75, kSoftmax, kWide, 1024, {256, 4}},
    {75, kSoftmax, kWide, 2048, {512, 4}},
    {75, kSoftmax, kWide, 4096, {512, 8}},   // 16-bit rows stay packed from here on, and exponentials are computed twice
    {75, kSoftmax, kWide, 8192, {1024, 8}},  // 65,536 elements of bf16: one row an SM, 64 registers a thread
    // Read twice: the rows in flight are 132 of an H100 times 256 KB at a vocabulary of 128,256, which its L2 holds. An
    // A100's 40 MB hold them too; a T4's 4 MB do not, and there a third of the traffic is the second reading.
    {75, kSoftmax, kWide, kAnyWidth, {512, 0}},
    {75, kSoftmax, kNarrow, 1024, {128, 0}},
    {75, kSoftmax, kNarrow, kAnyWidth, {512, 0}},
    // Streamed: 512 threads with 4 packs in flight are 32 KB a block, and 20 KB an SM fill the memory's latency.
    {75, kCrossEntropy, kWide, 256, {32, 0}},
    {75, kCrossEntropy, kWide, kAnyWidth, {512, 0}},
    // No reduction: blocks share a row, two packs a thread, as many as geglu's backward has in flight.
    {75, kCrossEntropyBackward, kWide, 128, {32, 0}},
    {75, kCrossEntropyBackward, kWide, kAnyWidth, {256, 0}},
    {75, kCrossEntropyBackward, kNarrow, 128, {32, 0}},
    {75, kCrossEntropyBackward, kNarrow, kAnyWidth, {256, 0}},
};

// The architectures that have rows, the newest first.
constexpr int kTunedArchs[] = {75};

// The row for code of `arch`; null where there is none, which is below the oldest.
constexpr const Tuning* find_softmax_tuning(int arch, Operation operation, bool wide, int64_t packs) {
  int tuned = 0;
  for (const int a : kTunedArchs)
    if (tuned == 0 && a <= arch) tuned = a;
  for (const Tuning& row : kTuning)
    if (row.arch == tuned && row.operation == operation && row.wide == wide && packs <= row.packs) return &row;
  return nullptr;
}

constexpr bool is_compiled(const Tuning& row) {
  const Layout& layout = row.layout;
  if (row.operation == kCrossEntropy) return row.wide && (layout.threads == 32 || layout.threads == 512);
  if (row.operation == kCrossEntropyBackward) return layout.threads == 32 || layout.threads == 256;
  if (layout.packs == 0) return layout.threads == 512 || (layout.threads == 128 && !row.wide);
#define SOFTMAX_SAME(THREADS, PACKS, FIRST, LAST)              \
  if (layout.threads == THREADS && layout.packs == PACKS) \
    return row.wide && row.arch >= FIRST && row.arch <= LAST;
  SOFTMAX_LAYOUTS(SOFTMAX_SAME)
#undef SOFTMAX_SAME
  return false;
}

constexpr bool table_is_sound() {
  for (const Tuning& row : kTuning) {
    if (!is_compiled(row)) return false;
    const int64_t held = static_cast<int64_t>(row.layout.threads) * row.layout.packs;
    if (held > 0 && held < row.packs) return false;
  }
  for (const int arch : kTunedArchs)  // every launch finds a row
    for (const Operation operation : {kSoftmax, kCrossEntropy, kCrossEntropyBackward})
      for (const bool wide : {kWide, kNarrow})
        if ((wide || operation != kCrossEntropy) && find_softmax_tuning(arch, operation, wide, kAnyWidth) == nullptr)
          return false;
  return true;
}
static_assert(table_is_sound(), "a row of the tuning table names a layout that is not compiled or is too narrow");
