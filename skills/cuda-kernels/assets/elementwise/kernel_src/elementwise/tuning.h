// The tuning table: how the packs are dealt out, by the code's architecture and the size of an access.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "arch.h"

namespace elementwise {
using namespace common;

// What is compiled for accesses of 16 bytes: X(packs of each tensor a thread).
#define ELEMENTWISE_LAYOUTS(X) X(1) X(2)
// The same for smaller accesses, where an address, a stride or the width is no multiple of 16 bytes.
constexpr int kNarrowPacks = 2;

struct Tuning {
  int arch;    // of the compiled code: this one and later ones
  int access;  // 16 bytes, or 4 for all that is smaller
  int threads;  // a block: any whole number of warps up to 16, nothing is compiled for it
  int packs;
};

constexpr Tuning kTuning[] = {
    // H100 (132 SMs of 2048 threads): 20 to 40 KB of loads in flight an SM fill the memory's latency, and one pack of two
    // tensors a thread is 64 KB; more packs a thread make one block's stores wait longer for its loads. All other cards from
    // 8.0 on: the same, as an estimate.
    {80, 16, 128, 1},
    // T4 (40 SMs of 1024 threads). An estimate, not measured: 5 KB in flight are enough. Instructions count more here than
    // threads: two packs a thread share what comes before them.
    {75, 16, 128, 2},
    {75, 4, 256, kNarrowPacks},
};

// The row for code of `arch`; null where there is none, which is below the oldest.
constexpr const Tuning* find_elementwise_tuning(int arch, int access) {
  for (const Tuning& row : kTuning)
    if (row.arch <= arch && (row.access == 16) == (access == 16)) return &row;
  return nullptr;
}

constexpr bool table_is_sound() {
#define ELEMENTWISE_SAME(V) compiled = compiled || (row.access == 16 && row.packs == V);
  for (const Tuning& row : kTuning) {
    bool compiled = row.access != 16 && row.packs == kNarrowPacks;
    ELEMENTWISE_LAYOUTS(ELEMENTWISE_SAME)
    if (!compiled || row.threads < 32 || row.threads > 512 || row.threads % 32 != 0) return false;
  }
#undef ELEMENTWISE_SAME
  for (const int access : {16, 4})  // every launch finds a row
    if (find_elementwise_tuning(kOldest, access) == nullptr) return false;
  return true;
}
static_assert(table_is_sound(), "a row of the tuning table names a layout that is not compiled, or odd threads");

}  // namespace elementwise
