// The tuning table: which kernel runs a launch, by the code's architecture, the width of a row and the bytes moved.
//
// All data, and one lookup. A launch takes the first row that fits it. `kernels` below says what is compiled; a row
// that names anything else, or more packs than its threads hold, does not compile.
#pragma once
#include <cstdint>

// How a row's work is laid out. packs = 0: the row is too wide for registers and is read twice.
struct Layout {
  int threads;  // that share a row; a block has at least 128
  int packs;    // a thread holds in registers
  int blocks;   // of the cluster that shares a row; above 1 from sm_90 on
};

// What is compiled for packs of 16 bytes: X(threads, packs, clustered, first, last), where code of the architectures
// from `first` to `last` uses it. Each is two kernels (with and without residual add) a type and architecture, about
// 0.1 s of compile time each: the list is short on purpose.
#define RMS_NORM_LAYOUTS(X)     \
  X(8, 2, false, 75, kNewest)   \
  X(32, 4, false, 75, kNewest)  \
  X(128, 2, false, 75, kNewest) \
  X(128, 4, false, 75, kNewest) \
  X(256, 4, false, 75, kNewest) \
  X(512, 4, false, 75, kNewest) \
  X(512, 16, false, 75, 89)     \
  X(256, 8, true, 90, kNewest)
// What is compiled for smaller packs: rows whose address or width is no multiple of 16 bytes.
#define RMS_NORM_NARROW_LAYOUTS(X) \
  X(32, 4, false, 75, kNewest)     \
  X(256, 8, false, 75, kNewest)

constexpr int kNewest = 999;

struct Tuning {
  int arch;            // of the compiled code: this and all above it, up to the next one in the table
  int pack_bytes;      // 16, or 4 for all that is narrower
  int64_t packs;       // a row has at most this many
  int64_t megabytes;   // moved in all: at least this many
  Layout layout;
  bool stream;         // stores ask to be the first to leave the L2
};

constexpr int64_t kAnyWidth = INT64_MAX;

constexpr Tuning kTuning[] = {
    // H100 (132 SMs, 50 MB of L2, 3.35 TB/s; about 20 KB in flight an SM fill the memory's latency).
    // Heads of 64 and 128: two packs a thread keep 32 KB in flight an SM.
    {90, 16, 16, 40, {8, 2, 1}, true},
    {90, 16, 16, 0, {8, 2, 1}, false},
    // One warp a row: no barrier.
    {90, 16, 128, 40, {32, 4, 1}, true},
    {90, 16, 128, 0, {32, 4, 1}, false},
    // One row a block of 128: several blocks an SM, so that one's stores overlap the other's loads.
    {90, 16, 256, 40, {128, 2, 1}, true},
    {90, 16, 256, 0, {128, 2, 1}, false},
    {90, 16, 512, 40, {128, 4, 1}, true},
    {90, 16, 512, 0, {128, 4, 1}, false},
    {90, 16, 1024, 40, {256, 4, 1}, true},
    {90, 16, 1024, 0, {256, 4, 1}, false},
    {90, 16, 2048, 40, {512, 4, 1}, true},
    {90, 16, 2048, 0, {512, 4, 1}, false},
    // One block cannot hold two such rows' registers an SM; shared by a cluster, each SM works on parts of several
    // rows in different phases, and loads overlap stores.
    {90, 16, 4096, 0, {256, 8, 2}, true},
    {90, 16, 8192, 0, {256, 8, 4}, true},
    {90, 16, 16384, 0, {256, 8, 8}, true},
    {90, 16, kAnyWidth, 0, {512, 0, 1}, true},
    {90, 4, 128, 0, {32, 4, 1}, false},
    {90, 4, 2048, 0, {256, 8, 1}, false},
    {90, 4, kAnyWidth, 0, {512, 0, 1}, true},

    // A100 (108 SMs, 40 MB of L2, 1.56 to 2.04 TB/s). Estimates, not measured: half the H100's bytes in flight an SM
    // are enough, so the same layouts do; no clusters, so the widest rows take 16 packs a thread.
    {80, 16, 16, 32, {8, 2, 1}, true},
    {80, 16, 16, 0, {8, 2, 1}, false},
    {80, 16, 128, 32, {32, 4, 1}, true},
    {80, 16, 128, 0, {32, 4, 1}, false},
    {80, 16, 256, 32, {128, 2, 1}, true},
    {80, 16, 256, 0, {128, 2, 1}, false},
    {80, 16, 512, 32, {128, 4, 1}, true},
    {80, 16, 512, 0, {128, 4, 1}, false},
    {80, 16, 1024, 32, {256, 4, 1}, true},
    {80, 16, 1024, 0, {256, 4, 1}, false},
    {80, 16, 2048, 0, {512, 4, 1}, true},
    {80, 16, 8192, 0, {512, 16, 1}, true},
    {80, 16, kAnyWidth, 0, {512, 0, 1}, true},
    {80, 4, 128, 0, {32, 4, 1}, false},
    {80, 4, 2048, 0, {256, 8, 1}, false},
    {80, 4, kAnyWidth, 0, {512, 0, 1}, true},

    // T4 (40 SMs of 1024 threads, 4 MB of L2, 320 GB/s). Estimates, not measured: 5 KB in flight an SM fill the
    // latency, which any layout gives; what is left is that outputs larger than 4 MB cannot stay in the L2.
    {75, 16, 16, 4, {8, 2, 1}, true},
    {75, 16, 16, 0, {8, 2, 1}, false},
    {75, 16, 128, 4, {32, 4, 1}, true},
    {75, 16, 128, 0, {32, 4, 1}, false},
    {75, 16, 256, 4, {128, 2, 1}, true},
    {75, 16, 256, 0, {128, 2, 1}, false},
    {75, 16, 512, 4, {128, 4, 1}, true},
    {75, 16, 512, 0, {128, 4, 1}, false},
    {75, 16, 1024, 4, {256, 4, 1}, true},
    {75, 16, 1024, 0, {256, 4, 1}, false},
    {75, 16, 2048, 0, {512, 4, 1}, true},
    {75, 16, 8192, 0, {512, 16, 1}, true},
    {75, 16, kAnyWidth, 0, {512, 0, 1}, true},
    {75, 4, 128, 0, {32, 4, 1}, false},
    {75, 4, 2048, 0, {256, 8, 1}, false},
    {75, 4, kAnyWidth, 0, {512, 0, 1}, true},
};

// The architectures that have rows, the newest first.
constexpr int kTunedArchs[] = {90, 80, 75};

constexpr bool is_compiled(const Layout& layout, int arch, int pack_bytes) {
  if (layout.packs == 0) return layout.threads == 512 && layout.blocks == 1;
#define RMS_NORM_SAME(THREADS, PACKS, CLUSTERED, FIRST, LAST)                                    \
  if (layout.threads == THREADS && layout.packs == PACKS && (layout.blocks > 1) == CLUSTERED) \
    return arch >= FIRST && arch <= LAST;
  if (pack_bytes == 16) {
    RMS_NORM_LAYOUTS(RMS_NORM_SAME)
  } else {
    RMS_NORM_NARROW_LAYOUTS(RMS_NORM_SAME)
  }
#undef RMS_NORM_SAME
  return false;
}

// The row for code of `arch`; null below the oldest.
constexpr const Tuning* find_tuning(int arch, int pack_bytes, int64_t packs, int64_t bytes) {
  int tuned = 0;
  for (const int a : kTunedArchs)
    if (tuned == 0 && a <= arch) tuned = a;
  for (const Tuning& row : kTuning) {
    if (row.arch == tuned && (row.pack_bytes == 16) == (pack_bytes == 16) && packs <= row.packs &&
        bytes >= row.megabytes * 1000000) {
      return &row;
    }
  }
  return nullptr;
}

constexpr bool table_is_sound() {
  for (const Tuning& row : kTuning) {
    const Layout& l = row.layout;
    if (!is_compiled(l, row.arch, row.pack_bytes)) return false;
    if (l.packs > 0 && static_cast<int64_t>(l.threads) * l.packs * l.blocks < row.packs) return false;
    if (l.blocks > 1 && row.arch < 90) return false;
  }
  for (const int arch : kTunedArchs)  // every launch finds a row
    if (find_tuning(arch, 16, kAnyWidth, 0) == nullptr || find_tuning(arch, 4, kAnyWidth, 0) == nullptr) return false;
  return true;
}
static_assert(table_is_sound(), "a row of the tuning table names a layout that is not compiled or does not hold its row");
