// The tuning table: which kernel runs a launch, by the code's architecture, its direction and the size of its accesses.
//
// All data, and one lookup: a launch takes the first row that fits it. GATED_LAYOUTS says what is compiled; a row that
// names anything else does not compile.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "arch.h"

namespace geglu {
using namespace common;

// How the packs are dealt out.
struct Layout {
  int threads;  // a block: any whole number of warps up to 16, nothing is compiled for it
  int packs;    // of each tensor a thread
};

// What is compiled: X(access, packs, first, last), for accesses of so many bytes, where code of the architectures from
// `first` to `last` uses it. Each is six kernels (three activations, two directions) a type and architecture. Less than
// 16 bytes are for an address, a stride or a width of several rows that is no multiple of 16.
#define GATED_LAYOUTS(X) \
  X(16, 1, 80, kNewest)  \
  X(16, 2, 75, 79)       \
  X(4, 4, 75, kNewest)   \
  X(2, 4, 75, kNewest)

enum Direction : int { kForward, kBackward };

struct Tuning {
  int arch;  // of the compiled code: this one and later ones
  Direction direction;
  int access;  // bytes: 16, 4 or 2
  Layout layout;
};

constexpr Tuning kTuning[] = {
    // H100 (132 SMs of 2048 threads, 50 MB of L2, 3.35 TB/s). Measured: 99.7 to 100.8 % of the copy at 126 MB and more,
    // forward and backward; blocks of 256 within 0.5 %, two packs a thread 0.9 to 4 % slower. 20 KB
    // of loads in flight an SM fill the memory's latency, and one pack of two tensors a thread is 64 KB; more packs
    // a thread only make one block's stores wait longer for its loads. Loads that leave no line in L1 are level from
    // memory, and take up to 45 % longer from L2 (geglu_backward of 512 x 5120: 7.7 us and 5.3).
    // All other cards from 8.0 on: the same, as an estimate; 11 to 15 KB in flight an SM fill an A100's latency.
    {80, kForward, 16, {128, 1}},
    {80, kBackward, 16, {128, 1}},
    // T4 (40 SMs of 1024 threads, 4 MB of L2, 320 GB/s). Estimates, not measured: 5 KB in flight an SM fill the
    // latency. Instructions count more here than threads: two packs a thread share what comes before them.
    {75, kForward, 16, {128, 2}},
    {75, kBackward, 16, {128, 2}},
    // Smaller accesses, all cards: 2 KB of each tensor a block, as above. On an H100 four packs of 2 bytes are 32 KB of
    // loads under way an SM, and 37 (silu) to 50 (gelu) instructions an element, of the 57 that memory has room for.
    {75, kForward, 4, {128, 4}},
    {75, kBackward, 4, {128, 4}},
    {75, kForward, 2, {256, 4}},
    {75, kBackward, 2, {256, 4}},
};

// The row for code of `arch`; null where there is none, which is below the oldest.
constexpr const Tuning* find_gated_tuning(int arch, Direction direction, int access) {
  for (const Tuning& row : kTuning) {
    if (row.arch <= arch && row.direction == direction && row.access == access) return &row;
  }
  return nullptr;
}

constexpr bool is_compiled(const Layout& layout, int arch, int access) {
#define GATED_SAME(ACCESS, PACKS, FIRST, LAST) \
  if (access == ACCESS && layout.packs == PACKS) return arch >= FIRST && arch <= LAST;
  GATED_LAYOUTS(GATED_SAME)
#undef GATED_SAME
  return false;
}

constexpr bool table_is_sound() {
  for (const Tuning& row : kTuning) {
    const Layout& l = row.layout;
    if (l.threads < 32 || l.threads > 512 || l.threads % 32 != 0) return false;
  }
  for (const int arch : kTunedArchs) {  // every launch finds a row
    for (const Direction direction : {kForward, kBackward}) {
      for (const int access : {16, 4, 2}) {
        const Tuning* found = find_gated_tuning(arch, direction, access);
        if (found == nullptr || !is_compiled(found->layout, arch, access)) return false;
      }
    }
  }
  return true;
}
static_assert(table_is_sound(), "a row of the tuning table names a layout that is not compiled, or odd threads");

}  // namespace geglu
