// The tuning tables: which kernel runs a launch, by the code's architecture, the size of its accesses, the width of a
// row and the bytes moved.
//
// All data, and one lookup each: a launch takes the first row that fits it. ADALN_LAYOUTS says what is compiled; a row
// that names anything else, or that more elements come to than its threads hold, does not compile.
#pragma once
#include <cstdint>
#include <initializer_list>

// How the work of a row is laid out.
struct Layout {
  int threads;  // that share a row; a block has at least 128, a wide row's any whole number of warps
  int packs;    // that each holds in registers, 1 or 2; or one of the two below
  bool stream;  // loads of x and h leave no line in L1, so that the modulation's rows stay there
};
// Rows that have their modulation in common: it lies in shared memory. At least 256 threads a block.
struct SharedLayout {
  int threads;   // that share a row; 0: none
  int packs;     // that each holds in registers
  uint32_t run;  // rows that a block takes one after another, times those it takes at once
};
constexpr int kShared = 0;  // a wide row, kept in shared memory
constexpr int kAgain = -1;  // a wide row, read again

constexpr int kNewest = 999;

// What is compiled for accesses of 16 bytes: X(threads, packs, load, first, last), where code of the architectures
// from `first` to `last` uses it. Each is two kernels (with and without gated residual) a type and architecture. Wide
// rows have two kernels more, and two for accesses of one element, where an address, a stride or the width is no
// multiple of 16 bytes.
#define ADALN_LAYOUTS(X)          \
  X(16, 1, kStream, 75, kNewest)  \
  X(32, 1, kStream, 75, kNewest)  \
  X(64, 2, kStream, 75, kNewest)  \
  X(128, 2, kStream, 75, 89)      \
  X(256, 1, kStream, 90, kNewest) \
  X(256, 2, kStream, 75, 89)      \
  X(512, 1, kStream, 90, kNewest) \
  X(512, 2, kStream, 75, kNewest)

// What is compiled of it for accesses of 16 bytes, by code of sm_80 and above: X(threads, packs).
#define ADALN_SHARED_LAYOUTS(X) X(32, 4) X(64, 4) X(128, 4) X(256, 4)

struct Tuning {
  int arch;           // of the compiled code: this one and all above it, up to the next in the table
  int access;         // 16 bytes, or kElement for one element
  int64_t packs;      // accesses a row, at most
  int64_t megabytes;  // moved in all, at least
  Layout alone;       // layer_norm, adaln
  Layout gated;       // gate_residual_adaln
};

constexpr int kElement = 0;
constexpr int64_t kAnyWidth = INT64_MAX;
constexpr bool kCachedLoads = false, kStreamLoads = true;

constexpr Tuning kTuning[] = {
    // H100 (132 SMs of 2048 threads, 50 MB of L2, 3.35 TB/s). Rows without modulation in common, and what has no row in
    // the table below. One pack a thread fits 32 registers with gate, scale and shift beside it: 2048 threads an SM.
    // Measured, % of a copy of the same bytes, bf16, a row of modulation a token: adaln 94.1, gated 95.5.
    {90, 16, 16, 0, {16, 1, kStreamLoads}, {16, 1, kStreamLoads}},      // 128 bf16: 8 rows a block, no barrier
    {90, 16, 32, 0, {32, 1, kStreamLoads}, {32, 1, kStreamLoads}},      // 256: 4 rows a block, no barrier
    {90, 16, 128, 0, {64, 2, kStreamLoads}, {64, 2, kStreamLoads}},     // to 1024: 2 rows a block
    {90, 16, 256, 0, {256, 1, kStreamLoads}, {256, 1, kStreamLoads}},   // 1152, 1536, LTX's 2048
    {90, 16, 512, 0, {512, 1, kStreamLoads}, {512, 1, kStreamLoads}},   // 3072, 4096, f32's 2048
    {90, 16, 1024, 0, {512, 2, kStreamLoads}, {512, 2, kStreamLoads}},  // 8192, f32's 4096
    {90, 16, 4096, 0, {512, kShared, kCachedLoads}, {512, kShared, kCachedLoads}},    // 32768: 64 KB, three rows an SM
    {90, 16, 8192, 0, {1024, kShared, kCachedLoads}, {1024, kShared, kCachedLoads}},  // 65536: 128 KB, one row an SM
    {90, 16, kAnyWidth, 0, {1024, kAgain, kCachedLoads}, {1024, kAgain, kCachedLoads}},
    {90, kElement, 512, 0, {128, kShared, kCachedLoads}, {128, kShared, kCachedLoads}},
    {90, kElement, 8192, 0, {512, kShared, kCachedLoads}, {512, kShared, kCachedLoads}},
    {90, kElement, kAnyWidth, 0, {1024, kAgain, kCachedLoads}, {1024, kAgain, kCachedLoads}},

    // A100 (108 SMs of 2048 threads, 40 MB of L2, 1.56 to 2.04 TB/s). Estimates, not measured: about 10 KB in flight an
    // SM fill the latency, half of what the H100 needs, and two packs a thread have 40 KB.
    {80, 16, 16, 0, {16, 1, kStreamLoads}, {16, 1, kStreamLoads}},
    {80, 16, 32, 0, {32, 1, kStreamLoads}, {32, 1, kStreamLoads}},
    {80, 16, 128, 0, {64, 2, kStreamLoads}, {64, 2, kStreamLoads}},
    {80, 16, 256, 0, {128, 2, kStreamLoads}, {128, 2, kStreamLoads}},
    {80, 16, 512, 0, {256, 2, kStreamLoads}, {256, 2, kStreamLoads}},
    {80, 16, 1024, 0, {512, 2, kStreamLoads}, {512, 2, kStreamLoads}},
    {80, 16, 4096, 0, {512, kShared, kCachedLoads}, {512, kShared, kCachedLoads}},
    {80, 16, 8192, 0, {1024, kShared, kCachedLoads}, {1024, kShared, kCachedLoads}},  // 128 of 163 KB
    {80, 16, kAnyWidth, 0, {1024, kAgain, kCachedLoads}, {1024, kAgain, kCachedLoads}},
    {80, kElement, 512, 0, {128, kShared, kCachedLoads}, {128, kShared, kCachedLoads}},
    {80, kElement, 8192, 0, {512, kShared, kCachedLoads}, {512, kShared, kCachedLoads}},
    {80, kElement, kAnyWidth, 0, {1024, kAgain, kCachedLoads}, {1024, kAgain, kCachedLoads}},

    // T4 (40 SMs of 1024 threads and 64 K registers, 4 MB of L2, 320 GB/s). Estimates, not measured: 5 KB in flight an
    // SM fill the latency, which 320 threads with one pack each give. A block has 48 KB of shared memory, two an SM 32.
    {75, 16, 16, 0, {16, 1, kStreamLoads}, {16, 1, kStreamLoads}},
    {75, 16, 32, 0, {32, 1, kStreamLoads}, {32, 1, kStreamLoads}},
    {75, 16, 128, 0, {64, 2, kStreamLoads}, {64, 2, kStreamLoads}},
    {75, 16, 256, 0, {128, 2, kStreamLoads}, {128, 2, kStreamLoads}},
    {75, 16, 512, 0, {256, 2, kStreamLoads}, {256, 2, kStreamLoads}},
    {75, 16, 1024, 0, {512, 2, kStreamLoads}, {512, 2, kStreamLoads}},
    {75, 16, 2560, 0, {512, kShared, kCachedLoads}, {512, kShared, kCachedLoads}},  // 40 KB
    {75, 16, kAnyWidth, 0, {1024, kAgain, kCachedLoads}, {1024, kAgain, kCachedLoads}},
    {75, kElement, 512, 0, {128, kShared, kCachedLoads}, {128, kShared, kCachedLoads}},
    {75, kElement, 8192, 0, {512, kShared, kCachedLoads}, {512, kShared, kCachedLoads}},
    {75, kElement, kAnyWidth, 0, {1024, kAgain, kCachedLoads}, {1024, kAgain, kCachedLoads}},
};

// gate_residual: every thread has one pack or two of all rows' sequence.
// For rows of a modulation in common, as many as four blocks take; else the table above.
struct SharedTuning {
  int arch;
  int64_t packs;      // accesses of 16 bytes a row, at most
  int64_t megabytes;  // moved in all, at least
  SharedLayout layout;
};

constexpr SharedTuning kSharedTuning[] = {
    // H100. Measured, % of a copy of the same bytes in the same run, bf16, at 49 and at 161 frames of LTX-Video, beside
    // kTuning's layouts (256 x 1 a row) and four packs a thread without shared memory, which had runs of their own:
    //   layer_norm, 2048       94.5           95.3           97.5
    //   layer_norm, 4096       89.7           80.0           95.5
    //   adaln                  85.9, 93.1     85.7, 89.9     70.3, 87.0
    //   gated                  86.6, 92.5     90.6, 95.5     76.5, 89.5
    //   gated, 4096            78.6           93.4           86.3
    // No one of them is best everywhere, and none is at the roof where modulation is shared: next, a table each.
    {90, 128, 0, {32, 4, 2}},
    {90, 256, 100, {64, 4, 2}},
    {90, 256, 0, {64, 4, 1}},
    {90, 512, 0, {128, 4, 2}},
    {90, 1024, 0, {256, 4, 4}},
    // A100. Estimates.
    {80, 128, 0, {32, 4, 2}},
    {80, 256, 0, {64, 4, 2}},
    {80, 512, 0, {128, 4, 2}},
    {80, 1024, 0, {256, 4, 4}},
};

struct GateTuning {
  int arch;
  int access;         // 16 bytes, or kElement
  int64_t megabytes;  // moved in all, at least
  int threads;        // a block, at most 256
  int packs;          // a thread: 1, or 2 with accesses of 16 bytes
};

constexpr GateTuning kGateTuning[] = {
    {90, 16, 0, 256, 1},  // 97.7 % at 198 MB; three loads a thread fill the latency, full occupancy overlaps the stores
    {90, kElement, 0, 256, 1},
    {80, 16, 0, 256, 1},  // estimate
    {80, kElement, 0, 256, 1},
    {75, 16, 0, 256, 1},  // estimate
    {75, kElement, 0, 256, 1},
};

// The architectures that have rows, the newest first.
constexpr int kTunedArchs[] = {90, 80, 75};

// The one whose rows code of `arch` takes; 0 below the oldest.
constexpr int tuned_arch(int arch) {
  for (const int a : kTunedArchs)
    if (a <= arch) return a;
  return 0;
}

// The row for code of `arch`; null where there is none, which is below the oldest.
constexpr const Tuning* find_tuning(int arch, int access, int64_t packs, int64_t bytes) {
  for (const Tuning& row : kTuning) {
    if (row.arch == tuned_arch(arch) && (row.access == 16) == (access == 16) && packs <= row.packs &&
        bytes >= row.megabytes * 1000000) {
      return &row;
    }
  }
  return nullptr;
}

// No threads where there is no row.
constexpr SharedLayout find_shared_layout(int arch, int64_t packs, int64_t bytes) {
  for (const SharedTuning& row : kSharedTuning) {
    if (row.arch == tuned_arch(arch) && packs > 32 && packs <= row.packs && bytes >= row.megabytes * 1000000) {
      return row.layout;
    }
  }
  return {0, 0, 0};
}

constexpr const GateTuning* find_gate_tuning(int arch, int access, int64_t bytes) {
  for (const GateTuning& row : kGateTuning) {
    if (row.arch == tuned_arch(arch) && (row.access == 16) == (access == 16) && bytes >= row.megabytes * 1000000) {
      return &row;
    }
  }
  return nullptr;
}

constexpr bool is_compiled(const Layout& layout, int arch, int access) {
  const bool whole_warps = layout.threads >= 32 && layout.threads <= 1024 && layout.threads % 32 == 0;
  if (layout.packs <= 0) return whole_warps && !layout.stream;
  [[maybe_unused]] constexpr bool kCached = kCachedLoads, kStream = kStreamLoads;
#define ADALN_SAME(THREADS, PACKS, STREAM, FIRST, LAST)                                                \
  if (access == 16 && layout.threads == THREADS && layout.packs == PACKS && layout.stream == STREAM) \
    return arch >= FIRST && arch <= LAST;
  ADALN_LAYOUTS(ADALN_SAME)
#undef ADALN_SAME
  return false;
}

// What a block of an architecture may have of shared memory, less what the kernel itself has.
constexpr int64_t shared_bytes(int arch) { return (arch >= 90 ? 227 : arch >= 80 ? 163 : 48) * 1024 - 256; }

constexpr bool tables_are_sound() {
  for (const Tuning& row : kTuning) {
    for (const Layout& l : {row.alone, row.gated}) {
      if (!is_compiled(l, row.arch, row.access)) return false;
      const int64_t bytes = row.access == 16 ? 16 : 4;
      if (l.packs == kShared && row.packs > shared_bytes(row.arch) / bytes) return false;
      if (l.packs > 0 && static_cast<int64_t>(l.threads) * l.packs < row.packs) return false;
    }
  }
  for (const SharedTuning& row : kSharedTuning) {
    bool compiled = false;
#define ADALN_SAME(THREADS, PACKS) \
  compiled = compiled || (row.layout.threads == THREADS && row.layout.packs == PACKS && THREADS * PACKS >= row.packs);
    ADALN_SHARED_LAYOUTS(ADALN_SAME)
#undef ADALN_SAME
    if (!compiled || row.layout.run < 1 || row.arch < 80) return false;
    if (row.packs * 16 / 2 * 3 * 4 > shared_bytes(row.arch)) return false;  // three fp32 rows of 16-bit elements
  }
  for (const GateTuning& row : kGateTuning) {
    if (row.threads < 32 || row.threads > 256 || row.threads % 32 != 0) return false;
    if (row.packs != 1 && !(row.packs == 2 && row.access == 16)) return false;
  }
  for (const int arch : kTunedArchs) {  // every launch finds a row
    for (const int access : {16, kElement}) {
      if (find_tuning(arch, access, kAnyWidth, 0) == nullptr) return false;
      if (find_gate_tuning(arch, access, 0) == nullptr) return false;
    }
  }
  return true;
}
static_assert(tables_are_sound(), "a row of a tuning table names a layout that is not compiled or is too narrow");
