// The tuning table: which kernel runs a launch, by the code's architecture, the size of its accesses and the width of a
// row.
//
// All data, and one lookup: a launch takes the first row that fits it. RMS_NORM_BACKWARD_LAYOUTS says what is compiled;
// a row that names anything else, or that more elements come to than its threads hold, does not compile.
#pragma once
#include <cstdint>
#include <initializer_list>

constexpr int kNewest = 999;

// What is compiled for accesses of 16 bytes: X(threads, packs, blocks, first, last), where blocks of them are to stand
// on an SM (which bounds the registers) and code of the architectures from `first` to `last` uses it. A pack of 16-bit
// elements takes a thread 20 registers (x, dy and weight, and eight sums), one of f32 16.
#define RMS_NORM_BACKWARD_LAYOUTS(X) \
  X(8, 1, 10, 75, kNewest)           \
  X(16, 1, 10, 75, kNewest)          \
  X(32, 1, 10, 75, kNewest)          \
  X(32, 4, 4, 75, kNewest)           \
  X(128, 2, 8, 75, 89)               \
  X(256, 1, 6, 90, kNewest)          \
  X(256, 2, 4, 75, 89)               \
  X(512, 1, 3, 90, kNewest)          \
  X(512, 2, 2, 75, kNewest)          \
  X(512, 4, 1, 75, kNewest)
// What is compiled for smaller accesses.
#define RMS_NORM_BACKWARD_NARROW_LAYOUTS(X) X(32, 4, 4, 75, kNewest)

struct Tuning {
  int arch;       // of the compiled code: this one and all above it, up to the next in the table
  int access;     // 16 bytes, or 4 for all that is smaller
  int64_t packs;  // accesses a row, at most
  int threads;    // that share a row
  int held;       // packs that each holds in registers; 0: the row is read twice
};

constexpr int64_t kAnyWidth = INT64_MAX;

constexpr Tuning kTuning[] = {
    // H100. Measured, % of a copy of dy, x and dx: 89.9 at 8192 x 4096, 87.1 at 16384 x 3072, 91.1 at 262144 x 128, 96.4
    // without dw: the blocks' sums are 6 % more traffic. 20 KB in flight an SM fill the latency; each layout has 32 KB. The
    // blocks of an SM overlap one row's stores with another's loads, and each block loads its next row as its registers
    // become free.
    {90, 16, 8, 8, 1},       // heads of 64
    {90, 16, 16, 16, 1},     // heads of 128; 32 x 1 takes 12 % longer
    {90, 16, 32, 32, 1},     // heads of 256, f32 heads of 128
    {90, 16, 128, 32, 4},    // a warp a row: no barrier
    {90, 16, 256, 256, 1},   // 2048: 1,536 threads an SM; 128 x 2 takes 7 % longer
    {90, 16, 512, 512, 1},   // 3072, 4096: as above; 256 x 2 takes 8 % longer
    {90, 16, 1024, 512, 2},  // 8192, f32 4096
    {90, 16, 2048, 512, 4},  // 16384: one row an SM, all 65,536 registers
    {90, 16, kAnyWidth, 512, 0},
    {90, 4, 128, 32, 4},
    {90, 4, 1024, 128, 0},
    {90, 4, kAnyWidth, 512, 0},

    // A100. Estimates: half of the H100's bytes in flight are enough, the rest is alike.
    {80, 16, 8, 8, 1},
    {80, 16, 16, 16, 1},
    {80, 16, 32, 32, 1},
    {80, 16, 128, 32, 4},
    {80, 16, 256, 128, 2},
    {80, 16, 512, 256, 2},
    {80, 16, 1024, 512, 2},
    {80, 16, 2048, 512, 4},
    {80, 16, kAnyWidth, 512, 0},
    {80, 4, 128, 32, 4},
    {80, 4, 1024, 128, 0},
    {80, 4, kAnyWidth, 512, 0},

    // T4 (1024 threads an SM, which 64 registers a thread fill). Estimates: 5 KB in flight are enough.
    {75, 16, 8, 8, 1},
    {75, 16, 16, 16, 1},
    {75, 16, 32, 32, 1},
    {75, 16, 128, 32, 4},
    {75, 16, 256, 128, 2},
    {75, 16, 512, 256, 2},
    {75, 16, 1024, 512, 2},
    {75, 16, 2048, 512, 4},
    {75, 16, kAnyWidth, 512, 0},
    {75, 4, 128, 32, 4},
    {75, 4, 1024, 128, 0},
    {75, 4, kAnyWidth, 512, 0},
};

// The architectures that have rows, the newest first.
constexpr int kTunedArchs[] = {90, 80, 75};

// The row for code of `arch`; null where there is none, which is below the oldest.
constexpr const Tuning* find_tuning(int arch, int access, int64_t packs) {
  int tuned = 0;
  for (const int a : kTunedArchs)
    if (tuned == 0 && a <= arch) tuned = a;
  for (const Tuning& row : kTuning)
    if (row.arch == tuned && (row.access == 16) == (access == 16) && packs <= row.packs) return &row;
  return nullptr;
}

// How many blocks go over the rows, and so how many rows of partial sums there are: what stands on `sms` SMs at once.
// By shape alone. kernel.toml states the same.
constexpr int64_t fast_blocks(int64_t rows, int64_t row_bytes, int64_t sms) {
  const int64_t an_sm = row_bytes <= 512     ? 10
                        : row_bytes <= 2048  ? 4
                        : row_bytes <= 4096  ? 6
                        : row_bytes <= 8192  ? 3
                        : row_bytes <= 16384 ? 2
                                             : 1;
  const int64_t most = sms * an_sm;
  return rows < 1 ? 1 : rows < most ? rows : most;
}

constexpr bool is_compiled(const Tuning& row) {
  if (row.held == 0) return row.threads >= 32 && row.threads <= 512 && row.threads % 32 == 0;
#define RMS_NORM_BACKWARD_SAME(THREADS, PACKS, BLOCKS, FIRST, LAST) \
  if (row.threads == THREADS && row.held == PACKS) return row.arch >= FIRST && row.arch <= LAST;
  if (row.access == 16) {
    RMS_NORM_BACKWARD_LAYOUTS(RMS_NORM_BACKWARD_SAME)
  } else {
    RMS_NORM_BACKWARD_NARROW_LAYOUTS(RMS_NORM_BACKWARD_SAME)
  }
#undef RMS_NORM_BACKWARD_SAME
  return false;
}

constexpr bool table_is_sound() {
  for (const Tuning& row : kTuning) {
    if (!is_compiled(row)) return false;
    if (row.held > 0 && static_cast<int64_t>(row.threads) * row.held < row.packs) return false;
  }
  for (const int arch : kTunedArchs)  // every launch finds a row
    for (const int access : {16, 4})
      if (find_tuning(arch, access, kAnyWidth) == nullptr) return false;
  return true;
}
static_assert(table_is_sound(), "a row of the table names a layout that is not compiled or is too narrow");
