// The tuning table: which kernel runs a launch, by the code's architecture, the size of its accesses, the slots of a
// head (the pairs of accesses that are rotated, and each access that is not) and the bytes moved.
//
// All data, and one lookup: a launch takes the first row that fits it. ROPE_LAYOUTS says what is compiled; a row that
// names anything else does not compile.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "arch.h"

namespace rope {
using namespace common;

constexpr int kMostThreads = 256;  // a block; its registers are bounded for so many
constexpr int kMostSlots = 32;     // of a head that is held in registers: a lane each

// How the heads of a token are laid out.
struct Layout {
  int threads;  // a block, at most: whole warps
  int heads;    // neighbours that each thread holds a slot of; 0: heads of any size, read twice for the norm
};

constexpr bool kPlain = false, kNorm = true;

// What is compiled for accesses of 16 bytes: X(norm, heads a thread, registers at most). For 16-bit elements each is
// two kernels: tables of their type, and fp32 tables, with eight registers more.
#define ROPE_LAYOUTS(X) \
  X(kPlain, 1, 32)      \
  X(kPlain, 2, 48)      \
  X(kNorm, 1, 40)       \
  X(kNorm, 2, 48)

struct Tuning {
  int arch;           // of the compiled code: this one and later ones
  int access;         // 16 bytes, or 4 for all that is smaller
  bool norm;
  int64_t slots;      // of a head, at most
  int64_t megabytes;  // moved in all, at least
  bool wide_tables;   // for fp32 tables beside 16-bit elements too, whose registers are more
  Layout layout;
};

constexpr int64_t kAnySize = INT64_MAX;

constexpr Tuning kTuning[] = {
    // H100 (132 SMs of 2048 threads, 50 MB of L2, 3.35 TB/s). Measured, % is of a copy of the same bytes. The figures are for heads
    // of 128 in bf16, of which a token has 32 and 8: 8 lanes a head.
    // Two heads a thread pay while all blocks stand on the SMs at once: 132 x 8 blocks of 5 warps of 4 KB are 21.6 MB.
    {90, 16, kPlain, kMostSlots, 22, true, {128, 1}},  // 8192 tokens: 97.5 %; 64 x 1 97.6, 160 x 1 97.4
    {90, 16, kPlain, kMostSlots, 8, true, {160, 2}},   // 1024 tokens: 8.95 us; 64 x 1 9.36, 96 x 2 9.35
    {90, 16, kPlain, kMostSlots, 0, true, {160, 1}},   // 128 tokens: two blocks an SM, one head's latency counts
    {90, 16, kNorm, kMostSlots, 22, true, {160, 1}},  // 8192 tokens: 97.8 %; 64 x 1 97.5, 160 x 2 96.5
    // 1024 tokens: 9.01 us, where 160 x 1 takes 9.6: all threads stand on the SMs at once. 48 registers allow that, and
    // those for fp32 tables do not: 10.9 us, where 160 x 1 takes 9.7.
    {90, 16, kNorm, kMostSlots, 8, false, {160, 2}},
    {90, 16, kNorm, kMostSlots, 0, true, {160, 1}},

    // Older and smaller cards. Estimates, not measured, one rule for all: half the H100's bytes in flight fill an A100's latency,
    // 5 KB an SM a T4's, so one head a thread has reserves enough.
    {75, 16, kPlain, kMostSlots, 0, true, {160, 1}},
    {75, 16, kNorm, kMostSlots, 0, true, {160, 1}},

    // All cards.
    {75, 16, kPlain, kAnySize, 0, true, {256, 0}},
    {75, 4, kPlain, kAnySize, 0, true, {256, 0}},
    {75, 16, kNorm, kAnySize, 0, true, {256, 0}},
    {75, 4, kNorm, kAnySize, 0, true, {256, 0}},
};

// The row for code of `arch`; null where there is none, which is below the oldest.
constexpr const Tuning* find_rope_tuning(int arch, int access, bool norm, bool wide_tables, int64_t slots,
                                    int64_t bytes) {
  for (const Tuning& row : kTuning) {
    if (row.arch <= arch && (row.access == 16) == (access == 16) && row.norm == norm && slots <= row.slots &&
        (row.wide_tables || !wide_tables) && bytes >= row.megabytes * 1000000) {
      return &row;
    }
  }
  return nullptr;
}

constexpr bool is_compiled(const Tuning& row) {
  const Layout& layout = row.layout;
  if (layout.threads < 32 || layout.threads > kMostThreads || layout.threads % 32 != 0) return false;
  if (layout.heads == 0) return true;
  if (row.access != 16 || row.slots > kMostSlots) return false;
#define ROPE_SAME(NORM, HEADS, REGISTERS) \
  if (row.norm == NORM && layout.heads == HEADS) return true;
  ROPE_LAYOUTS(ROPE_SAME)
#undef ROPE_SAME
  return false;
}

constexpr bool table_is_sound() {
  for (const Tuning& row : kTuning)
    if (!is_compiled(row)) return false;
  for (const bool norm : {kPlain, kNorm})  // every launch finds a row
    for (const int access : {16, 4})
      if (find_rope_tuning(kOldest, access, norm, true, kAnySize, 0) == nullptr) return false;
  return true;
}
static_assert(table_is_sound(), "a row of the tuning table names a layout that is not compiled or is too narrow");

}  // namespace rope
