// The tuning tables: which kernel runs a launch, by the code's architecture, the size of its accesses, whether k is
// there beside q, the width of a token and the bytes moved.
//
// All data, and one lookup: a launch takes the first row that fits it. The lists of layouts say what is compiled; a row
// that names anything else, or is too narrow for its tokens, does not compile.
#pragma once
#include <cstdint>

#include "arch.h"

namespace rope3d {
using namespace common;

// How the work of a token is laid out.
struct Layout {
  int threads;  // that share a token; a block has at least 128
  int packs;    // that each holds of a tensor; 0: read twice, any number of warps up to 16 (the norm alone)
  int tensors;  // 2: a thread has the same packs of q and of k; 1: q and k have blocks of their own
  bool stream;  // loads of q and k leave no line in L1
};

// What is compiled for accesses of 16 bytes: X(threads, packs, tensors, load, first, last), where code of the
// architectures from `first` to `last` uses it. The rotation alone goes over wider tokens in several steps.
#define ROPE3D_ROTATION_LAYOUTS(X)   \
  X(32, 2, 1, kStream, 75, kNewest)  \
  X(256, 1, 1, kStream, 75, kNewest) \
  X(256, 1, 2, kStream, 75, 89)      \
  X(256, 1, 2, kCached, 90, kNewest) \
  X(512, 1, 2, kCached, 90, kNewest)
#define ROPE3D_NORM_LAYOUTS(X)       \
  X(32, 2, 1, kStream, 75, kNewest)  \
  X(256, 1, 1, kStream, 75, kNewest) \
  X(256, 1, 2, kStream, 75, kNewest) \
  X(256, 2, 1, kStream, 75, kNewest) \
  X(256, 2, 2, kStream, 75, kNewest) \
  X(256, 4, 1, kStream, 75, kNewest) \
  X(256, 1, 1, kCached, 90, kNewest) \
  X(256, 1, 2, kCached, 90, kNewest) \
  X(512, 1, 2, kCached, 90, kNewest)
// What is compiled of both for smaller accesses, where an address, a stride or the width is no multiple of 16 bytes.
#define ROPE3D_NARROW_LAYOUTS(X) X(32, 2, 1, kCached, 75, kNewest)

struct Tuning {
  int arch;           // of the compiled code: this one and later ones
  int access;         // 16 bytes, or 4 for all that is smaller
  int tensors;        // 2: q and k; 1: q alone
  int64_t packs;      // accesses a token, at most
  int64_t megabytes;  // moved in all, at least
  bool own_tables;    // for batches with a table each as well, whose entries L1 has no room for
  Layout layout;
};

constexpr int64_t kAnyWidth = INT64_MAX;
constexpr bool kCachedLoads = false, kStreamLoads = true;

// The rotation alone. At 2048 elements of 16 bits (256 packs) a thread has one pack of q, one of k and the 8 floats of
// their table entries, in 32 registers, so that 2048 threads stand on an SM.
constexpr Tuning kRotationTuning[] = {
    // H100 (90). Measured at 2048 and 4096; % is of a copy of the same bytes, bf16. The other rows are of the same kind. A100
    // and T4 (75). Estimates, not measured: a T4's 32 to 64 KB of L1 hold a quarter of a table, which q and k share too.
    {75, 16, 2, 64, 0, true, {32, 2, 1, kStreamLoads}},          // narrow tokens: one warp each
    {90, 16, 2, 256, 0, true, {256, 1, 2, kCachedLoads}},        // LTX-Video, 2048: 98.8 % at 161 frames, kStream 97.2, 128 x 1 x 2 94.1
    {90, 16, 2, kAnyWidth, 0, true, {512, 1, 2, kCachedLoads}},  // LTX-Video 13B, 4096: 99.3 %, 256 x 2 x 2 98.5, 256 x 1 x 2 97.1
    {75, 16, 2, kAnyWidth, 0, true, {256, 1, 2, kStreamLoads}},
    {75, 16, 1, 64, 0, true, {32, 2, 1, kStreamLoads}},
    {75, 16, 1, kAnyWidth, 0, true, {256, 1, 1, kStreamLoads}},
    {75, 4, 2, kAnyWidth, 0, true, {32, 2, 1, kCachedLoads}},
    {75, 4, 1, kAnyWidth, 0, true, {32, 2, 1, kCachedLoads}},
};

// With the norm: a token stays in the registers of its threads.
constexpr Tuning kNormTuning[] = {
    // H100 (90). Measured at 2048 and 4096; % is of a copy of the same bytes, bf16. The other rows are of the same kind. A100
    // and T4 (75). Estimates, not measured.
    {75, 16, 2, 64, 0, true, {32, 2, 1, kStreamLoads}},     // one warp a token needs no barrier
    {90, 16, 2, 256, 150, true, {256, 1, 2, kCachedLoads}},  // LTX-Video, 161 frames, batch 2: 97.7 %, kStream 95.8
    // 49 frames: 96.2 %, kStream 95.3, 256 x 1 x 2 95.2, 128 x 2 x 1 95.3; with a table each 93.0, where 256 x 1 x 2,
    // which reads a token's entries once for q and k, has 95.2.
    {90, 16, 2, 256, 0, false, {256, 1, 1, kCachedLoads}},
    {90, 16, 2, 256, 0, true, {256, 1, 2, kCachedLoads}},
    {90, 16, 2, 512, 0, true, {512, 1, 2, kCachedLoads}},    // LTX-Video 13B, 4096: 96.6 %, kStream 94.2, 256 x 2 x 1 95.1
    {75, 16, 2, 256, 0, true, {256, 1, 2, kStreamLoads}},
    {75, 16, 2, 512, 0, true, {256, 2, 2, kStreamLoads}},
    {75, 16, 2, 1024, 0, true, {256, 4, 1, kStreamLoads}},  // f32 of 4096
    {75, 16, 2, kAnyWidth, 0, true, {512, 0, 1, kCachedLoads}},
    {75, 16, 1, 64, 0, true, {32, 2, 1, kStreamLoads}},
    {75, 16, 1, 256, 0, true, {256, 1, 1, kStreamLoads}},
    {75, 16, 1, 512, 0, true, {256, 2, 1, kStreamLoads}},
    {75, 16, 1, 1024, 0, true, {256, 4, 1, kStreamLoads}},
    {75, 16, 1, kAnyWidth, 0, true, {512, 0, 1, kCachedLoads}},
    {75, 4, 2, 64, 0, true, {32, 2, 1, kCachedLoads}},
    {75, 4, 2, kAnyWidth, 0, true, {256, 0, 1, kCachedLoads}},
    {75, 4, 1, 64, 0, true, {32, 2, 1, kCachedLoads}},
    {75, 4, 1, kAnyWidth, 0, true, {256, 0, 1, kCachedLoads}},
};

// The row for code of `arch`; null where there is none, which is below the oldest.
template <int ROWS>
constexpr const Tuning* find_row(const Tuning (&rows)[ROWS], int arch, int access, int tensors, int64_t packs,
                                 int64_t bytes, bool own_tables) {
  for (const Tuning& row : rows) {
    if (row.arch <= arch && (row.access == 16) == (access == 16) && row.tensors == tensors && packs <= row.packs &&
        bytes >= row.megabytes * 1000000 && (row.own_tables || !own_tables)) {
      return &row;
    }
  }
  return nullptr;
}

constexpr const Tuning* find_rope3d_tuning(bool norm, int arch, int access, int tensors, int64_t packs, int64_t bytes,
                                           bool own_tables) {
  return norm ? find_row(kNormTuning, arch, access, tensors, packs, bytes, own_tables)
              : find_row(kRotationTuning, arch, access, tensors, packs, bytes, own_tables);
}

constexpr bool is_compiled(bool norm, const Layout& layout, int arch, int access) {
  if (norm && layout.packs == 0) {
    return layout.threads >= 128 && layout.threads <= 512 && layout.threads % 32 == 0 && layout.tensors == 1 &&
           !layout.stream;
  }
  constexpr bool kCached = kCachedLoads, kStream = kStreamLoads;
#define ROPE3D_SAME(THREADS, PACKS, TENSORS, STREAM, FIRST, LAST)                                                 \
  if (layout.threads == THREADS && layout.packs == PACKS && layout.tensors == TENSORS && layout.stream == STREAM) \
    return arch >= FIRST && arch <= LAST;
  if (access != 16) {
    ROPE3D_NARROW_LAYOUTS(ROPE3D_SAME)
  } else if (norm) {
    ROPE3D_NORM_LAYOUTS(ROPE3D_SAME)
  } else {
    ROPE3D_ROTATION_LAYOUTS(ROPE3D_SAME)
  }
#undef ROPE3D_SAME
  return false;
}

template <int ROWS>
constexpr bool table_is_sound(const Tuning (&rows)[ROWS], bool norm) {
  for (const Tuning& row : rows) {
    const Layout& l = row.layout;
    if (l.tensors > row.tensors) return false;
    if (norm && l.packs > 0 && static_cast<int64_t>(l.threads) * l.packs < row.packs) return false;
    for (const int arch : kTunedArchs) {  // what is found where a row of the table ends
      const Tuning* found =
          find_row(rows, arch, row.access, row.tensors, row.packs, row.megabytes * 1000000, row.own_tables);
      if (found == nullptr || !is_compiled(norm, found->layout, arch, row.access)) return false;
    }
  }
  for (const int access : {16, 4})  // every launch finds a row
    for (const int tensors : {1, 2})
      if (find_row(rows, kOldest, access, tensors, kAnyWidth, 0, true) == nullptr) return false;
  return true;
}
static_assert(table_is_sound(kRotationTuning, false) && table_is_sound(kNormTuning, true),
              "a row of a tuning table names a layout that is not compiled or is too narrow");

}  // namespace rope3d
