// The tuning table: which kernel runs a launch, by the code's architecture, the size of its accesses, the width of a
// row, the bytes moved and the number of rows.
//
// All data, and one lookup: a launch takes the first row that fits it. RMS_NORM_LAYOUTS says what is compiled; a row
// that names anything else, or is too narrow for its rows, does not compile.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "arch.h"

namespace rmsnorm {
using namespace common;

// How the work of a row is laid out.
struct Layout {
  // That share a row; a block has at least 128. Of unaligned rows: at most, in as many warps as the row needs, where they are not fewer.
  int threads;
  int packs;    // accesses that each holds in registers, of unaligned rows of one element where they are 8 or more; 0: the row is
                // read twice, any number of warps up to 16
  bool stream;  // loads leave no line in L1
};

// What is compiled for accesses of 16 bytes: X(threads, packs, load, first), where code of the architecture `first`
// and above uses it. Each is two kernels (with and without residual add) a type and architecture.
#define RMS_NORM_LAYOUTS(X) \
  X(4, 2, kCached, 90)      \
  X(4, 3, kCached, 90)      \
  X(8, 1, kCached, 75)      \
  X(8, 2, kCached, 75)      \
  X(8, 3, kCached, 90)      \
  X(16, 1, kCached, 75)     \
  X(16, 2, kCached, 75)     \
  X(16, 3, kCached, 90)     \
  X(32, 2, kCached, 75)     \
  X(32, 4, kCached, 75)     \
  X(32, 5, kCached, 90)     \
  X(64, 2, kCached, 90)     \
  X(64, 3, kCached, 90)     \
  X(64, 4, kStream, 90)     \
  X(128, 1, kStream, 90)    \
  X(128, 2, kCached, 75)    \
  X(128, 3, kCached, 90)    \
  X(128, 4, kStream, 90)    \
  X(256, 1, kStream, 90)    \
  X(256, 2, kCached, 75)    \
  X(256, 2, kStream, 90)    \
  X(256, 3, kCached, 90)    \
  X(256, 4, kCached, 75)    \
  X(384, 4, kCached, 90)    \
  X(512, 2, kStream, 90)    \
  X(512, 4, kCached, 75)    \
  X(512, 8, kCached, 75)    \
  X(1024, 8, kCached, 75)
// What is compiled for rows that begin or end between multiples of 16 bytes, at the same place in all tensors: X(threads, packs, alone,
// with residual add), of narrow rows with the weight in shared memory, and X(threads, elements). Where tensors differ in that, rows are
// read twice, by elements. With residual add fp32 would spill for more packs on sm_89, and for several rows a block on sm_100.
#define RMS_NORM_NARROW_LAYOUTS(X) X(8, 1, true, true) X(8, 2, true, false) X(8, 3, true, false) X(16, 2, true, false)
#define RMS_NORM_UNALIGNED_LAYOUTS(X)                                                                 \
  X(16, 1, false, true) X(16, 2, false, true) X(16, 3, true, true) X(32, 2, true, true) X(32, 3, true, true) \
  X(32, 4, true, false) X(512, 4, true, false) X(1024, 2, true, true)
#define RMS_NORM_ELEMENT_LAYOUTS(X) X(16, 8) X(16, 16) X(32, 8) X(32, 24) X(64, 16)
// What is compiled for accesses of 4 bytes: X(threads, words).
#define RMS_NORM_WORD_LAYOUTS(X) \
  X(8, 4) X(32, 8) X(32, 16) X(64, 8) X(128, 8) X(128, 16) X(256, 8) X(256, 12) X(256, 16) X(512, 8) X(512, 16)
constexpr int kWordThreads = 256;  // a block of those rows of 16-bit elements that a warp or less shares

struct Tuning {
  int arch;           // of the compiled code: this one and later ones
  int access;         // 16 bytes, 4, kUnaligned, or 2 for an element of as many
  int64_t packs;      // accesses a row, at most; kUnaligned: one more than an aligned row has of whole packs
  int64_t megabytes;  // moved in all, at least
  Layout layout;
  int64_t most_rows = INT64_MAX;
  int add = 0;  // kAlone or kWithAdd: not for the other, as a row of kUnaligned is not for the one that its layout lacks
};
constexpr int kAlone = -1, kWithAdd = 1;

constexpr int kUnaligned = 8;  // 16 bytes, but for the ends of a row
constexpr bool is_by_elements(const Layout& unaligned) { return unaligned.packs == 0 || (unaligned.threads < 128 && unaligned.packs >= 8); }
constexpr int64_t kAnyWidth = INT64_MAX, kAnyRows = INT64_MAX;
constexpr bool kCachedLoads = false, kStreamLoads = true;

constexpr Tuning kTuning[] = {
    // Three and five packs a thread, H200, us of 96 MB: 80 columns 24.1 (8 x 2 25.2), 136 25.1 (16 x 2 28.2), 264 24.7 (32 x 2 28.9), 1032
    // 25.4 (128 x 2 29.4), 1288 24.3 (25.6). With residual add they take longer: 72 30.2 (8 x 2 25.5), 1096 26 (128 x 2 24.7).
    // H100 (132 SMs, 50 MB of L2, 3.35 TB/s) and H200 (4.8 TB/s). Measured; % is of a copy, on an H100, bf16 unless said.
    // Some 20 KB in flight an SM fill the memory's latency. Every layout below has more, so what decides is that
    // many small blocks an SM overlap one row's stores with another's loads. Tried and left out: clusters that share a
    // row and persistent grids that prefetch the next one (slower), a ring of shared memory that the copy engine fills
    // and L2 hints on loads and stores (no gain).
    // On an H200 a block moves 4 KB of x, as a copy's does.
    {90, 16, 8, 10, {4, 2, kCachedLoads}},      // H200, 200000 x 64: 104 % (8 x 1 88)
    {90, 16, 8, 0, {8, 1, kCachedLoads}},       // heads of 64: 99.8 % at 524288 rows
    {90, 16, 12, 25, {4, 3, kCachedLoads}, kAnyRows, kAlone},
    {90, 16, 12, 0, {8, 2, kCachedLoads}},      // at most 3/4 of 16 x 1 would have a pack
    {90, 16, 16, 25, {8, 2, kCachedLoads}},     // heads of 128: 98.9 % at 262144 rows; H200, 145063 x 128 101 (16 x 1 86)
    {90, 16, 16, 0, {16, 1, kCachedLoads}},
    {90, 16, 24, 25, {8, 3, kCachedLoads}, kAnyRows, kAlone},
    {90, 16, 32, 0, {16, 2, kCachedLoads}},     // heads of 256: 99.8 %, f32 heads of 128 100.3, where 32 x 4 gives 92 and 96
    {90, 16, 48, 25, {16, 3, kCachedLoads}, kAnyRows, kAlone},
    {90, 16, 64, 0, {32, 2, kCachedLoads}},     // 89455 x 304: where 32 x 4, with fewer rows in flight, gives 95.0
    // Where a block a row leaves all rows on the card at once, the time that one of them takes counts: more threads, as long
    // as 132 SMs have room for all, 16 blocks of 128 threads each, 6 of 256 or 3 of 512.
    {90, 16, 128, 0, {128, 1, kStreamLoads}, 2112},
    {90, 16, 128, 0, {64, 2, kCachedLoads}, 3200},  // H200, 3000 x 768 109 % (32 x 4 99)
    {90, 16, 96, 0, {32, 4, kCachedLoads}},     // one warp a row: no barrier. H200, 8000 x 520 102 % (64 x 2 93)
    {90, 16, 128, 0, {64, 2, kCachedLoads}},    // 32768 x 1024: 32 x 4 99.5 %; H200, 8000 x 1024 104 (32 x 4 101)
    {90, 16, 160, 64, {32, 5, kCachedLoads}, kAnyRows, kAlone},
    {90, 16, 192, 25, {64, 3, kCachedLoads}, kAnyRows, kAlone},
    {90, 16, 256, 25, {128, 2, kCachedLoads}},  // 16128 x 2048: 99.3 to 100.4 %
    {90, 16, 256, 10, {64, 4, kStreamLoads}},   // fewer rows than fill the card twice: more packs a thread, +2 %
    {90, 16, 256, 0, {256, 1, kStreamLoads}},   // one row's latency counts: more threads, one pack each, +2 %
    {90, 16, 384, 20, {128, 3, kCachedLoads}},  // H200, 20000 x 2064: 100 % (256 x 2 86), 20000 x 3072 100 (97)
    {90, 16, 512, 40, {256, 2, kCachedLoads}},  // 8192 x 4096: 99.8 %; 16384 x 3072: 99.5 %
    {90, 16, 512, 5, {128, 4, kStreamLoads}, 528},  // 474 x 3200 with residual add: 5.2 us, where 256 x 2 takes 6.1
    {90, 16, 512, 0, {256, 2, kStreamLoads}, 792},  // 128 x 4096: 2.45 us, 128 x 4 2.56; 792 x 4096 with residual add 9.6 and 11.5
    {90, 16, 512, 0, {128, 4, kStreamLoads}},   // 1024 x 4096: 103 %, with residual add 106 %, where 256 x 2 gives 98
    {90, 16, 1024, 0, {512, 2, kStreamLoads}, 396},  // 268 x 7104 with residual add: 256 x 4 gives 89
    {90, 16, 768, 0, {256, 3, kCachedLoads}},   // H200, 600 x 4104: 111 % (256 x 4 86), 3000 x 5120 102 (97)
    {90, 16, 1024, 0, {256, 4, kCachedLoads}},  // 32768 x 8192: 0.4 % behind 512 x 2, 0.8 % ahead at 1024 x 8192
    {90, 16, 1536, 0, {384, 4, kCachedLoads}},  // H200, 1000 x 8320: 97 % (512 x 4 78), 3000 x 10240 100 (87)
    {90, 16, 2048, 0, {512, 4, kCachedLoads}},  // 4096 x 16384: 100.3 %, 256 x 8 gives 99.4
    // 2048 x 32768: 97.3 %, with residual add 97.9; 256 x 16 gives 97.5 and 97.1, 1024 x 4 gives 96.9 and 98.5.
    {90, 16, 4096, 0, {512, 8, kCachedLoads}},
    {90, 16, 8192, 0, {1024, 8, kCachedLoads}},  // one row an SM, so loads wait for stores: 95.3 %; 512 x 16 gives 94.4
    {90, 16, kAnyWidth, 0, {512, 0, kCachedLoads}},

    // A100, L40S, T4. Estimates, not measured, one rule for all: with an H100's latency 11 to 15 KB in flight an SM fill
    // an A100's memory, 5 KB a T4's, less than the H100 needs, so the layouts that are best there for much data have more reserve
    // here. Rows stay in registers while they fit: a T4's L2 holds none until it is read again.
    {75, 16, 8, 0, {8, 1, kCachedLoads}},
    {75, 16, 16, 0, {16, 1, kCachedLoads}},
    {75, 16, 32, 0, {16, 2, kCachedLoads}},
    {75, 16, 64, 0, {32, 2, kCachedLoads}},
    {75, 16, 128, 0, {32, 4, kCachedLoads}},
    {75, 16, 256, 0, {128, 2, kCachedLoads}},
    {75, 16, 512, 0, {256, 2, kCachedLoads}},
    {75, 16, 1024, 0, {256, 4, kCachedLoads}},
    {75, 16, 2048, 0, {512, 4, kCachedLoads}},
    {75, 16, 4096, 0, {512, 8, kCachedLoads}},
    {75, 16, 8192, 0, {1024, 8, kCachedLoads}},  // 64 registers x 1024 threads: one row an SM
    {75, 16, kAnyWidth, 0, {512, 0, kCachedLoads}},

    // All cards. H200, bf16, us of 80 MB, with residual add 160, whose copies take 19.7 and 39.3. By words (before, by elements or
    // 16 bytes): 302 columns 21.5 (26.3), 502 21.3 (24.3), 582 21.2 (24.4), 2404 21.1 (23.7), 4198 22.5 (25.8), 7004 21.4 (31.1), 12002
    // 24.6 (37.3); with add 302 41.2 (49.8), 582 41.5 (46.6), 12002 42.8 (48.4), but 3002 42.4 (41.2). Fewer bytes have more threads a
    // row: 1996 x 1002 128 x 8 3.4 (32 x 16 4.1, before 4.6), 666 x 3002 with add 256 x 8 5.8 (128 x 16 7.2, before 6.0). Of 33 to 128
    // words 16 bytes are faster. Odd rows by 16 bytes: 12001 512 x 4 24.0 (1024 x 2 37.5), 15147 24.7 (34.9); with add 735 1024 x 2 42.5
    // (32 x 24 46.8); but 203 x 9805 512 x 4 5.6 (1024 x 2 4.5).
    // By 16 bytes, several rows a block, us of 96 MB: 261 columns 26.7 (by 32 x 24 elements 33.2), 333 26.7 (30.9), 771 26.0 (64 x 16
    // 29.6), and of 250 MB 333 67 (80); with residual add 131 26.3 (36.6), 333 27.1 (30.5), 601 26.1 (27.8). Of 2 MB those of more
    // threads a row take less. With the weight in shared memory (before, with the rows there, an element a thread): 65 31.8 (35.1), 71
    // 27.8 (33.1), 131 27.7 (33.4), 157 27.4 (29.9), 201 27.1 (30.1), 255 26.5 (28.0), but 101 28.5 (27.9) and 118 26.5 (25.1); of 20 MB
    // 101 8.0 (9.0), 134 7.7 (8.7); with residual add 71 26.7 (16 x 1 some 33).
    {75, kUnaligned, 9, 16, {8, 1, kCachedLoads}},
    {75, kUnaligned, 9, 10, {8, 1, kCachedLoads}, kAnyRows, kAlone},
    {75, kUnaligned, 17, 5, {16, 1, kCachedLoads}, kAnyRows, kWithAdd},
    {75, kUnaligned, 33, 5, {16, 2, kCachedLoads}, kAnyRows, kWithAdd},
    {75, kUnaligned, 17, 16, {8, 2, kCachedLoads}},
    {75, kUnaligned, 25, 16, {8, 3, kCachedLoads}},
    {75, kUnaligned, 33, 32, {16, 2, kCachedLoads}},
    {75, kUnaligned, 49, 5, {16, 3, kCachedLoads}, kAnyRows, kWithAdd},
    {75, kUnaligned, 65, 5, {32, 2, kCachedLoads}, kAnyRows, kWithAdd},
    {75, kUnaligned, 97, 5, {32, 3, kCachedLoads}, kAnyRows, kWithAdd},
    {75, kUnaligned, 49, 32, {16, 3, kCachedLoads}},
    {75, kUnaligned, 65, 32, {32, 2, kCachedLoads}},
    {75, kUnaligned, 97, 32, {32, 3, kCachedLoads}},
    {75, kUnaligned, 16, 0, {16, 8, kCachedLoads}},
    {75, kUnaligned, 24, 0, {16, 16, kCachedLoads}},
    {75, kUnaligned, 32, 0, {32, 8, kCachedLoads}},
    {75, kUnaligned, 72, 0, {32, 24, kCachedLoads}},
    {75, kUnaligned, 2049, 0, {1024, 2, kCachedLoads}, kAnyRows, kWithAdd},
    {75, kUnaligned, 129, 32, {32, 4, kCachedLoads}},
    {75, kUnaligned, 96, 0, {32, 24, kCachedLoads}},
    {75, kUnaligned, 128, 0, {64, 16, kCachedLoads}},
    {75, kUnaligned, 769, 0, {1024, 2, kCachedLoads}},
    {75, kUnaligned, 2049, 20, {512, 4, kCachedLoads}},
    {75, kUnaligned, 2049, 0, {1024, 2, kCachedLoads}},
    {75, kUnaligned, kAnyWidth, 0, {512, 0, kCachedLoads}},
    {75, 4, 32, 0, {8, 4, kCachedLoads}},
    {75, 4, 192, 0, {32, 8, kCachedLoads}},
    {75, 4, 256, 20, {32, 8, kCachedLoads}},
    {75, 4, 512, 20, {32, 16, kCachedLoads}},
    {75, 4, 1024, 20, {128, 8, kCachedLoads}},
    {75, 4, 2048, 20, {128, 16, kCachedLoads}},
    {75, 4, 3072, 20, {256, 12, kCachedLoads}},  // 96 MB of 5006 columns 25.2 us (27.2)
    {75, 4, 4096, 20, {256, 16, kCachedLoads}},
    {75, 4, 384, 0, {64, 8, kCachedLoads}},
    {75, 4, 768, 0, {128, 8, kCachedLoads}},
    {75, 4, 1536, 0, {256, 8, kCachedLoads}},
    {75, 4, 3072, 0, {512, 8, kCachedLoads}},
    {75, 4, 4096, 0, {256, 16, kCachedLoads}},
    {75, 4, 8192, 0, {512, 16, kCachedLoads}},
    {75, 4, kAnyWidth, 0, {512, 0, kCachedLoads}},
    {75, 2, 1024, 0, {128, 0, kCachedLoads}},
    {75, 2, kAnyWidth, 0, {512, 0, kCachedLoads}},
};

// Whether rows of so many words are accessed a word at a time. alike: each lies at the same place between multiples of 16 bytes in
// all tensors, so that elements and 16 bytes are the other choice, and for fp32 (size 4) the better one. Where a little over half of
// the widest layout's words are there, by 16 bytes 96 MB of 8194 columns take 27.7 us (33.4), with residual add 26.5 (26.2).
constexpr bool is_by_words(int size, int64_t words, bool alike, int64_t bytes) {
  const bool half = words > 4096 && words <= 5120 && bytes >= 60000000;
  return !alike || (size == 2 && (words <= 32 || (words > 128 && !half)));
}

constexpr bool is_compiled(const Layout& layout, int arch, int access, bool add) {
  if (layout.packs == 0) return layout.threads >= 128 && layout.threads <= 512 && layout.threads % 32 == 0 && !layout.stream;
  constexpr bool kCached = kCachedLoads, kStream = kStreamLoads;
#define RMS_NORM_SAME(THREADS, PACKS, STREAM, FIRST)                                 \
  if (layout.threads == THREADS && layout.packs == PACKS && layout.stream == STREAM) \
    return arch >= FIRST;
  if (access == 16) {
    RMS_NORM_LAYOUTS(RMS_NORM_SAME)
  }
#undef RMS_NORM_SAME
#define RMS_NORM_SAME(THREADS, PACKS, ALONE, WITH_ADD)                                                                                \
  if (access == kUnaligned && layout.threads == THREADS && layout.packs == PACKS && !layout.stream && (add ? WITH_ADD : ALONE)) return true;
  RMS_NORM_NARROW_LAYOUTS(RMS_NORM_SAME)
  RMS_NORM_UNALIGNED_LAYOUTS(RMS_NORM_SAME)
#undef RMS_NORM_SAME
#define RMS_NORM_SAME(THREADS, ELEMENTS) \
  if (access == kUnaligned && layout.threads == THREADS && layout.packs == ELEMENTS && !layout.stream) return true;
  RMS_NORM_ELEMENT_LAYOUTS(RMS_NORM_SAME)
#undef RMS_NORM_SAME
#define RMS_NORM_SAME(THREADS, WORDS) \
  if (access == 4 && layout.threads == THREADS && layout.packs == WORDS && !layout.stream) return true;
  RMS_NORM_WORD_LAYOUTS(RMS_NORM_SAME)
#undef RMS_NORM_SAME
  return false;
}

// The row for code of `arch`; null where there is none, which is below the oldest.
constexpr const Tuning* find_rms_norm_tuning(int arch, int access, int64_t packs, int64_t bytes, int64_t rows, bool add) {
  for (const Tuning& row : kTuning) {
    if (row.arch <= arch && row.access == access && packs <= row.packs && bytes >= row.megabytes * 1000000 &&
        rows <= row.most_rows && (row.add == 0 || (row.add == kWithAdd) == add) &&
        (access != kUnaligned || is_compiled(row.layout, arch, access, add))) {
      return &row;
    }
  }
  return nullptr;
}

constexpr bool table_is_sound() {
  for (const Tuning& row : kTuning) {
    const Layout& l = row.layout;
    if (!is_compiled(l, row.arch, row.access, false) && !is_compiled(l, row.arch, row.access, true)) return false;
    if (l.packs == 0) continue;
    const int64_t whole = row.access == kUnaligned ? row.packs - 1 : row.packs;
    const int64_t needed = row.access == kUnaligned && is_by_elements(l) ? 8 * row.packs - 1 : whole;  // 8: elements a pack, at most
    if (static_cast<int64_t>(l.threads) * l.packs < needed) return false;
  }
  for (const int access : {16, kUnaligned, 4, 2})  // every launch finds a row
    for (const bool add : {false, true})
      if (find_rms_norm_tuning(kOldest, access, kAnyWidth, 0, kAnyRows, add) == nullptr) return false;
  return true;
}
static_assert(table_is_sound(), "a row of the tuning table names a layout that is not compiled or is too narrow");

}  // namespace rmsnorm
