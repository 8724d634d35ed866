// The tuning table: which tile a launch takes, by the code's architecture and the size of an element.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "arch.h"

namespace transpose {
using namespace common;

// A tile of `down` x `across` blocks of N x N elements, N of which are 16 bytes; a thread a block.
struct Layout {
  int down, across;
};

// What is compiled: X(down, across), multiples of 8.
#define TRANSPOSE_LAYOUTS(X) X(16, 16)

// Where rows are no whole packs: tiles of 64 rows of 128 bytes, read 32 rows at once, a thread a pack of the nine that 128
// bytes may lie in. On an H100 128 rows, or 256 bytes, are hardly slower or faster where tiles are many, and slower where
// they are few.
constexpr int kUnalignedRows = 64;
constexpr int kUnalignedPacks = 8;
constexpr int kUnalignedRowsAtOnce = 32;
constexpr int kUnalignedThreads = kUnalignedRowsAtOnce * (kUnalignedPacks + 1);

// Tiles of a panel side by side. Blocks that run at once then read, and write, pieces of some KB of each row, however wide
// x is: of two-byte elements an H100 has room for 528 blocks, which are 16 rows of 32 tiles, 8 KB by 4 KB.
constexpr int kPanelWidth = 32;

struct Tuning {
  int arch;  // of the compiled code: this one and later ones
  int size;  // bytes of an element
  Layout layout;
};

constexpr Tuning kTuning[] = {
    // Pieces of 256 bytes of each row are read and written. A thread of 16-bit elements has 128 bytes in flight and about 50
    // registers. On an H100 four blocks of 256 threads are 128 KB, where 20 to 40 KB an SM fill the memory's latency;
    // smaller tiles are slower. A100 (164 KB of shared memory an SM: three blocks of 32 KB) and T4 (64 KB: two): estimates.
    {75, 2, {16, 16}},
    {75, 4, {16, 16}},
};

// The row for code of `arch`; null where there is none, which is below the oldest.
constexpr const Tuning* find_transpose_tuning(int arch, int size) {
  for (const Tuning& row : kTuning)
    if (row.arch <= arch && row.size == size) return &row;
  return nullptr;
}

constexpr bool table_is_sound() {
#define TRANSPOSE_SAME(DOWN, ACROSS) compiled = compiled || (row.layout.down == DOWN && row.layout.across == ACROSS);
  for (const Tuning& row : kTuning) {
    bool compiled = false;
    TRANSPOSE_LAYOUTS(TRANSPOSE_SAME)
    if (!compiled) return false;
  }
#undef TRANSPOSE_SAME
  for (const int size : {2, 4})  // every launch finds a row
    if (find_transpose_tuning(kOldest, size) == nullptr) return false;
  return true;
}
static_assert(table_is_sound(), "a row of the tuning table names a layout that is not compiled, or a row is missing");

}  // namespace transpose
