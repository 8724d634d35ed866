// The tuning tables: which kernel runs a launch, by the code's architecture, the size of its accesses and the width of a
// row.
//
// All data, and one lookup each: a launch takes the first row that fits it. ADALN_LAYOUTS says what is compiled; a row
// that names anything else, or is too narrow for its rows, does not compile.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "arch.h"

namespace adaln {
using namespace common;

// How the work of a row is laid out.
struct Layout {
  int threads;  // that share a row: fewer than 128 of several rows a block; else at most, in as many warps as the row needs.
                // A wide row has all of them
  int packs;    // that each holds in registers; or one of the two below
};
// When a thread of adaln_uniform loads the modulation of its packs.
enum Fetch : int {
  kEarly,  // all of it with x; it stays packed
  kHalf,   // scale and shift with x, a pack's tables where they are used
  kAhead,  // what a pack has while the one before it is used
};
// What the rows of adaln_uniform have besides a scale and a shift.
enum Kind : int { kAlone, kTables, kGated };  // nothing; both their tables; a gated residual, and all tables or none
// Rows that have their modulation in common.
struct GroupLayout {
  int threads;  // a block, all of which share a row, at most: as many warps as it needs; 0: none
  int packs;    // that each holds of a row in registers
  int rows;     // a block
  Fetch fetch = kEarly;  // of adaln_uniform
};
// Rows of persistent blocks.
struct PersistentLayout {
  int threads;  // that share a row, at most: as many warps as it needs; 0: none
  int packs;    // that each holds in registers
  int block;    // threads a block, at most: 1,024 of them stand on an SM
};
// Few wide rows, each in a cluster.
struct ClusterLayout {
  int blocks;   // that share a row; 0: none
  int threads;  // a block
  int packs;    // that each holds in registers
};
constexpr int kShared = 0;  // a wide row, kept in shared memory
constexpr int kReread = -1;  // a wide row, read twice or three times

// What is compiled for accesses of 16 bytes: X(threads, packs). Each is two kernels (with and without gated residual) a
// type and architecture. Wide rows have two kernels more, and two for accesses of one element.
#define ADALN_LAYOUTS(X) \
  X(8, 1) X(16, 1) X(32, 1) X(32, 2) X(64, 1) X(64, 2) X(128, 1) X(256, 1) X(512, 1) X(512, 2) X(512, 3) X(1024, 2)
// The same for rows that are no whole number of 16 bytes, or begin between multiples of 16, at the same place in each tensor.
#define ADALN_UNALIGNED_LAYOUTS(X) X(64, 2) X(256, 1) X(512, 1) X(1024, 2)
// The same for accesses of one element, where tensors differ in that, or rows are narrow: X(threads, elements).
#define ADALN_ELEMENT_LAYOUTS(X) X(32, 8) X(128, 8) X(512, 8)

// BLOCKS, of so many threads, or what an SM has room for.
template <int THREADS, int BLOCKS>
constexpr int kAffineBlocks = BLOCKS * THREADS < kSmThreads ? BLOCKS : kSmThreads / THREADS;

// The same for rows with a scale and a shift alone, without gated residual: X(threads, packs, blocks), where so many blocks are to
// stand on an SM. Fewer than 128 threads are of adaln_affine, others of adaln_uniform.
#define ADALN_AFFINE_LAYOUTS(X)                                                                                         \
  X(8, 2, 12) X(8, 3, 9) X(16, 2, 12) X(16, 3, 9) X(32, 2, 12) X(32, 3, 9) X(32, 4, 8) X(64, 2, 12) X(64, 3, 9) X(64, 4, 8) \
  X(256, 1, 6) X(256, 2, 5) X(256, 4, 3) X(512, 1, 3) X(512, 3, 2) X(512, 4, 2)

// The same with tables or a gated residual, of adaln_uniform: X(kind, threads, packs, rows, fetch, blocks).
#define ADALN_PACK_LAYOUTS(X)                                                                        \
  X(kTables, 8, 2, 1, kEarly, 7) X(kTables, 8, 2, 4, kEarly, 4) X(kTables, 8, 3, 1, kEarly, 5)       \
  X(kTables, 8, 3, 2, kEarly, 4) X(kTables, 16, 1, 4, kEarly, 6) X(kTables, 16, 3, 1, kEarly, 5)     \
  X(kTables, 16, 3, 2, kEarly, 4) X(kTables, 32, 1, 4, kEarly, 6) X(kTables, 32, 2, 1, kEarly, 7)    \
  X(kTables, 32, 2, 2, kEarly, 5) X(kTables, 32, 2, 4, kEarly, 4) X(kTables, 32, 3, 1, kEarly, 5)    \
  X(kTables, 32, 3, 2, kEarly, 4) X(kTables, 128, 2, 1, kEarly, 7) X(kTables, 128, 2, 2, kEarly, 6)  \
  X(kTables, 256, 1, 1, kEarly, 6) X(kTables, 256, 2, 1, kEarly, 4) X(kTables, 256, 2, 2, kEarly, 3) \
  X(kTables, 256, 3, 2, kEarly, 2) X(kTables, 256, 4, 2, kHalf, 2) X(kTables, 512, 2, 1, kEarly, 2)  \
  X(kTables, 512, 3, 1, kEarly, 1) X(kTables, 512, 3, 2, kEarly, 1) X(kTables, 512, 4, 1, kEarly, 1) \
  X(kTables, 512, 4, 1, kAhead, 2) X(kGated, 128, 2, 1, kEarly, 5) X(kGated, 256, 1, 2, kEarly, 4)   \
  X(kGated, 256, 3, 1, kHalf, 2) X(kGated, 256, 4, 1, kHalf, 1) X(kGated, 512, 1, 2, kEarly, 2)      \
  X(kGated, 512, 2, 1, kHalf, 1)

// The same by accesses of 4 bytes (kWord). Those of is_of_elements are compiled for accesses of one element of 2 bytes as well.
#define ADALN_WORD_LAYOUTS(X)                                                                          \
  X(kAlone, 8, 3, 1, kEarly, 10) X(kAlone, 8, 3, 2, kEarly, 9) X(kAlone, 8, 5, 2, kEarly, 8)           \
  X(kAlone, 16, 4, 1, kEarly, 9) X(kAlone, 32, 10, 1, kEarly, 7) X(kAlone, 32, 10, 2, kEarly, 5)       \
  X(kTables, 8, 5, 1, kEarly, 7) X(kTables, 8, 5, 2, kEarly, 7) X(kTables, 16, 3, 2, kEarly, 8)        \
  X(kTables, 32, 10, 1, kEarly, 5) X(kTables, 32, 10, 2, kEarly, 4) X(kTables, 32, 16, 1, kEarly, 4)   \
  X(kGated, 32, 10, 1, kEarly, 4)                                                                      \
  X(kAlone, 16, 4, 2, kEarly, 8) X(kAlone, 16, 6, 1, kEarly, 9) X(kAlone, 16, 6, 2, kEarly, 7)         \
  X(kAlone, 32, 4, 1, kEarly, 9) X(kAlone, 32, 4, 2, kEarly, 8) X(kAlone, 32, 6, 1, kEarly, 9)         \
  X(kAlone, 32, 6, 2, kEarly, 7) X(kAlone, 32, 8, 1, kEarly, 8) X(kAlone, 32, 8, 2, kEarly, 6)         \
  X(kAlone, 32, 12, 1, kEarly, 6) X(kAlone, 32, 12, 2, kEarly, 4) X(kAlone, 128, 4, 1, kEarly, 9)      \
  X(kAlone, 128, 4, 2, kEarly, 8) X(kAlone, 128, 8, 1, kEarly, 8) X(kAlone, 256, 8, 1, kEarly, 4)      \
  X(kAlone, 512, 8, 1, kEarly, 2) X(kAlone, 512, 16, 1, kEarly, 1) X(kTables, 8, 3, 1, kEarly, 9)      \
  X(kTables, 8, 3, 2, kEarly, 8) X(kTables, 16, 4, 1, kEarly, 8) X(kTables, 16, 4, 2, kEarly, 7)       \
  X(kTables, 16, 6, 1, kEarly, 7) X(kTables, 16, 6, 2, kEarly, 6) X(kTables, 32, 4, 1, kEarly, 8)      \
  X(kTables, 32, 4, 2, kEarly, 7) X(kTables, 32, 6, 1, kEarly, 7) X(kTables, 32, 6, 2, kEarly, 6)      \
  X(kTables, 32, 8, 1, kEarly, 6) X(kTables, 32, 8, 2, kEarly, 5) X(kTables, 32, 12, 1, kEarly, 5)     \
  X(kTables, 32, 12, 2, kEarly, 4) X(kTables, 128, 4, 1, kEarly, 8) X(kTables, 128, 4, 2, kEarly, 7)   \
  X(kTables, 128, 8, 1, kEarly, 6) X(kTables, 128, 8, 2, kEarly, 5) X(kTables, 256, 8, 1, kEarly, 3)   \
  X(kTables, 256, 16, 1, kEarly, 2) X(kTables, 512, 8, 1, kEarly, 1) X(kTables, 512, 12, 1, kEarly, 1) \
  X(kTables, 512, 16, 1, kEarly, 1) X(kGated, 8, 4, 1, kEarly, 8) X(kGated, 8, 4, 2, kEarly, 6)        \
  X(kGated, 16, 4, 1, kEarly, 7) X(kGated, 16, 4, 2, kEarly, 5) X(kGated, 32, 4, 1, kEarly, 7)         \
  X(kGated, 32, 6, 1, kEarly, 6) X(kGated, 32, 8, 1, kEarly, 4) X(kGated, 32, 8, 2, kHalf, 4)          \
  X(kGated, 32, 12, 1, kEarly, 4) X(kGated, 128, 8, 1, kEarly, 5) X(kGated, 512, 10, 1, kEarly, 1)     \
  X(kGated, 512, 16, 1, kHalf, 1)
constexpr bool is_of_elements(const GroupLayout& layout) {
  return layout.fetch != kAhead && (layout.packs <= 12 || layout.threads == 32) && layout.threads * layout.packs <= (layout.rows == 1 ? 4096 : 512);
}

// The same for few wide rows, in clusters, from sm_90 on: X(access, blocks, threads, packs).
#define ADALN_CLUSTER_LAYOUTS(X)                       \
  X(16, 8, 128, 1) X(16, 8, 128, 2) X(16, 2, 512, 2)   \
  X(kElement, 8, 128, 4) X(kElement, 8, 128, 8) X(kElement, 8, 128, 16)

// What is compiled of groups: X(access, threads, packs, rows, gated, blocks, first), where so many blocks are to stand on an SM,
// by code of the architecture `first` and above.
#define ADALN_GROUP_LAYOUTS(X)           \
  X(16, 8, 1, 4, false, 8, 80)           \
  X(16, 16, 1, 4, false, 8, 80)          \
  X(16, 32, 1, 4, false, 8, 80)          \
  X(16, 32, 2, 2, false, 6, 80)          \
  X(16, 128, 1, 2, false, 10, 80)        \
  X(16, 256, 1, 4, false, 4, 80)         \
  X(16, 256, 2, 3, false, 3, 80)         \
  X(16, 512, 2, 2, false, 2, 90)         \
  X(16, 512, 4, 1, false, 2, 90)         \
  X(16, 8, 1, 4, true, 6, 80)            \
  X(16, 16, 1, 4, true, 6, 80)           \
  X(16, 32, 1, 2, true, 8, 80)           \
  X(16, 128, 1, 2, true, 8, 80)          \
  X(16, 256, 1, 3, true, 4, 80)          \
  X(16, 384, 1, 2, true, 3, 90)          \
  X(16, 512, 1, 2, true, 2, 80)          \
  X(16, 512, 2, 1, true, 2, 90)          \
  X(16, 1024, 2, 1, true, 1, 90)         \
  X(kUnaligned, 16, 3, 2, false, 4, 80)  \
  X(kUnaligned, 32, 2, 4, false, 5, 80)  \
  X(kUnaligned, 512, 1, 4, false, 2, 80) \
  X(kUnaligned, 256, 2, 3, false, 3, 80) \
  X(kUnaligned, 512, 2, 2, false, 2, 80) \
  X(kUnaligned, 512, 4, 1, false, 2, 80) \
  X(kUnaligned, 512, 1, 3, true, 2, 80)  \
  X(kUnaligned, 512, 2, 1, true, 2, 80)  \
  X(kUnaligned, 512, 4, 1, true, 2, 80)

// The same of adaln_persistent: X(threads, packs, block, gated). Each is two kernels, for rows with a modulation in common and for
// those with one each. Code of architectures before that has no asynchronous copies.
#define ADALN_PERSISTENT_LAYOUTS(X) \
  X(512, 2, 512, false)             \
  X(512, 3, 1024, false)            \
  X(1024, 2, 1024, false)           \
  X(512, 2, 512, true)              \
  X(1024, 2, 1024, true)
constexpr int kPersistentFrom = 80;

struct Tuning {
  int arch;       // of the compiled code: this one and later ones
  int access;     // 16 bytes, kUnaligned, or kElement for one element
  int64_t packs;  // accesses a row, at most
  int64_t rows;   // at most
  Layout alone;   // layer_norm, adaln
  Layout gated;   // gate_residual_adaln
};

constexpr int kElement = 0, kWord = 4, kUnaligned = 8;  // kUnaligned: of 16 bytes, but for the ends of a row
// Rows that are no whole number of 16 bytes are accessed an element at a time up to kNarrow elements, and up to kLessNarrow
// where all rows have kFewElements at most; those with a modulation in common up to kNarrowInGroups.
constexpr int64_t kNarrow = 256, kLessNarrow = 4096, kNarrowInGroups = 128;
constexpr int64_t kFewElements = 1 << 18;
constexpr int64_t kAny = INT64_MAX;
constexpr int64_t kFew = 1056;  // eight an H100's SM: one row's latency counts

// Rows with a scale and a shift alone, in accesses of 16 bytes. What finds no row, or one of no threads, is in the tables below.
struct AffineTuning {
  int64_t packs, rows;  // at most
  Layout layout;
};

constexpr AffineTuning kAffineTuning[] = {
    // [quote affine]
    // H200. Where a launch's rows are on the card at once, more threads; else layouts whose threads have most to do. Layer_norm,
    // bf16, us (before, in groups or by adaln_rows): 44356 x 320 15.2 (18.0), 60000 x 640 37.7 (43.5), 8192 x 1152 11.6 (13.3),
    // 26041 x 1536 39.2 (44.0), 19531 x 2048 40.2 (43.4). By adaln_uniform (by adaln_affine, when it had these): 700 x 3000 3.9
    // (4.7), 13000 x 3072 39.4 (40.6), 1000 x 4096 6.0 (6.5), 8192 x 4096 33.4 (34.6), 8960 x 5120 45.2 (46.8), 300 x 8192 4.9
    // (5.0), 4882 x 8192 39.8 (41.0), 3255 x 12288 40.2 (43.4), 2441 x 16384 40.9 (42.7). A copy of 160 MB takes 39.3, of 8192 x
    // 4096 33.4. Narrower rows are as fast or faster by adaln_affine: 52000 x 768 39.5 (32 x 3 of adaln_uniform 40.2).
    {8, 50000, {8, 2}},
    {8, kAny, {0, 0}},  // more rows of 64 columns are faster in groups: 625000 x 64 40.0 (8 x 2 48.4)
    {12, kAny, {8, 2}},
    {16, 20000, {16, 2}},
    {16, kAny, {8, 2}},
    {24, 20000, {16, 2}},
    {24, kAny, {8, 3}},
    {32, 5000, {32, 2}},
    {32, kAny, {16, 2}},
    {48, 6000, {32, 3}},
    {48, kAny, {16, 3}},
    {64, kAny, {32, 2}},
    {96, 1400, {32, 3}},
    {96, 3168, {64, 2}},  // 24 an SM: 3000 x 768 4.0 us (32 x 3 4.4)
    {96, kAny, {32, 3}},
    {128, 500, {256, 1}},
    {128, 1400, {32, 4}},
    {128, 3168, {64, 2}},
    {128, kAny, {32, 4}},
    {192, 1500, {256, 1}},
    {192, kAny, {64, 3}},
    {256, 1500, {256, 1}},
    {256, kAny, {64, 4}},
    {512, 200, {512, 1}},
    {384, kAny, {256, 2}},
    {512, 3000, {256, 2}},
    {512, kAny, {256, 4}},
    {1024, kAny, {256, 4}},
    {1536, kAny, {512, 3}},
    {2048, kAny, {512, 4}},
    // [end quote]
};

// The same of adaln_uniform. What finds no row, or one of no threads, is in the tables below.
struct UniformTuning {
  int access;           // 16 bytes, kWord, or kElement for one of 2 bytes
  Kind kind;
  int layer;            // 1: on a LayerNorm; 0: on either norm
  int64_t packs, rows;  // at most
  GroupLayout own;      // a row a block at a time: each has a modulation of its own, or there are too few for the other
  GroupLayout common;   // rows with a modulation in common, of which a launch has kGroupBlocksAtLeast blocks
};

// Of up to so many elements a row is that of as many words.
constexpr int64_t kElementsAsWords = 256;

constexpr UniformTuning kUniformTuning[] = {
    // H200, bf16, us (before, in groups, or by adaln_affine from 8,200 columns on): on LayerNorm 104000 x 384 41.1 (46.1), 80000
    // x 512 41.5 (40.9), 52000 x 768 41.7 (41.4), 34000 x 1152 42.1 (43.8), 19531 x 2048 40.6 (41.5), 9700 x 4096 41.2 (43.1),
    // 8960 x 5120 47.9 (52.2), 6500 x 6144 42.6 (48.4), 4882 x 8192 43.2 (47.3), 3900 x 10240 45.4 (57.5), 3255 x 12288 45.9
    // (55.1), 2441 x 16384 47.6 (60.5), of fewer rows 4000 x 320 3.2 (4.5), 6000 x 768 6.7 (7.4), 300 x 4096 3.7 (4.4), 1000 x
    // 5120 8.3 (9.8), 800 x 16384 19.6 (24.6), but 250 x 10240 6.1 (5.6); on RMSNorm 52000 x 768 40.8 (39.5), 8960 x 5120 47.1
    // (47.1), 4882 x 8192 42.6 (43.0), 3255 x 12288 44.4 (50.6). A copy of the 160 MB of the larger ones takes 39.3 and of 184 MB
    // (x 5120) 44.8. With a modulation each: 104000 x 384 73.4 (80.5), 9700 x 4096 73.2 (81.0), 739 x 7808 12.3 (14.4), 4882 x
    // 8192 74.3 (77.0). Up to some 3,000 rows two of them a block were slower, on RMSNorm: 1500 x 1024 3.4 (3.8), 954 x 2048 3.7 (4.3),
    // 437 x 3584 3.5 (4.0), 2200 x 4096 11.4 (12.2), 1500 x 5120 10.2 (11.6), but 437 x 5120 4.7 (4.4). A modulation each, of 129 to 192
    // packs, a pack a thread (two): 9191 x 1088 20.0 (22.1), 7812 x 1280 19.8 (21.0), but 976 x 1280 4.5 (4.0).
    {16, kTables, 0, 12, kAny, {8, 2, 1}, {8, 2, 4}},
    {16, kTables, 0, 16, kAny, {}, {16, 1, 4}},
    {16, kTables, 0, 24, kAny, {8, 3, 1}, {8, 3, 2}},
    {16, kTables, 0, 32, kAny, {}, {32, 1, 4}},
    {16, kTables, 0, 48, kAny, {16, 3, 1}, {16, 3, 2}},
    {16, kTables, 0, 64, 20000, {32, 2, 1}, {32, 2, 2}},
    {16, kTables, 0, 64, kAny, {32, 2, 1}, {32, 2, 4}},
    {16, kTables, 0, 96, kAny, {32, 3, 1}, {32, 3, 2}},
    {16, kTables, 0, 128, 3000, {128, 2, 1}, {128, 2, 1}},
    {16, kTables, 0, 128, kAny, {128, 2, 1}, {128, 2, 2}},
    {16, kTables, 0, 192, 2000, {128, 2, 1}, {128, 2, 2}},
    {16, kTables, 0, 192, kAny, {256, 1, 1}, {128, 2, 2}},
    {16, kTables, 0, 256, 1056, {128, 2, 1}, {256, 2, 1}},
    {16, kTables, 0, 256, 2500, {128, 2, 1}, {128, 2, 2}},
    {16, kTables, 1, 256, kAny, {128, 2, 1}, {128, 2, 2}},
    {16, kTables, 0, 256, kAny, {128, 2, 1}, {}},
    {16, kTables, 0, 512, 3000, {256, 2, 1}, {512, 2, 1}},
    {16, kTables, 0, 512, kAny, {256, 2, 1}, {256, 2, 2}},
    {16, kTables, 0, 640, 3000, {512, 2, 1}, {512, 2, 1}},
    {16, kTables, 0, 640, kAny, {512, 2, 1}, {256, 4, 2, kHalf}},
    {16, kTables, 0, 768, kAny, {512, 2, 1}, {256, 3, 2}},
    {16, kTables, 0, 1024, kAny, {512, 2, 1}, {256, 4, 2, kHalf}},
    {16, kTables, 0, 1280, kAny, {512, 3, 1}, {512, 4, 1, kAhead}},
    {16, kTables, 0, 1536, 1000, {512, 3, 1}, {512, 4, 1, kAhead}},
    {16, kTables, 0, 1536, kAny, {512, 3, 1}, {512, 3, 2}},
    {16, kTables, 0, 2048, kAny, {512, 4, 1}, {512, 4, 1, kAhead}},
    // Gated, of 150 MB, whose copy takes 36.9 (before, in groups or by adaln_rows): in common 2048 38.5 (38.9), 4096 39.3 (41.0), 4480
    // 40.8 (49.3), 5120 40.1 (48.0), 6144 39.4 (50.5), 7168 40.8 (51.5), 8192 40.8 (51.8); each 4096 36.6 (37.9), 5120 37.1 (38.8),
    // 6144 36.8 (45.7), 8192 37.8 (43.2); of fewer rows 976 x 2048 5.7 (7.5), 390 x 5120 6.4 (7.8), 223 x 5120 each 5.6 (7.0). Many of
    // 3072 are in groups: 38.8, by 256 x 3 39.1.
    {16, kGated, 0, 128, kAny, {}, {}},
    {16, kGated, 0, 256, kAny, {128, 2, 1}, {256, 1, 2}},
    {16, kGated, 0, 384, 2500, {512, 2, 1, kHalf}, {256, 3, 1, kHalf}},
    {16, kGated, 0, 384, kAny, {512, 2, 1, kHalf}, {}},
    {16, kGated, 0, 512, kAny, {512, 2, 1, kHalf}, {512, 1, 2}},
    {16, kGated, 0, 640, kAny, {512, 2, 1, kHalf}, {256, 4, 1, kHalf}},
    {16, kGated, 0, 768, kAny, {512, 2, 1, kHalf}, {512, 2, 1, kHalf}},
    {16, kGated, 0, 1024, kAny, {256, 4, 1, kHalf}, {256, 4, 1, kHalf}},
    // Rows that are no whole number of 16 bytes. H200, bf16, us (before, by elements or in phases). By words, a scale and a shift in
    // common: 588235 x 34 26.5 (75.5), 79365 x 252 21.2 (26.8), 19960 x 1002 23.4 (27.1), 6662 x 3002 24.5 (30.2), 2855 x 7004 27.3
    // (32.1), 1320 x 15148 31.2 (41.3); with tables 158730 x 126 23.0 (40.8), 39840 x 502 24.5 (28.1), 2855 x 7004 32.9 (36.6), 1666 x
    // 12002 37.4, 1320 x 15148 36.1 (50.6); with a modulation each 294117 x 34 23.5 (147), 39682 x 252 19.8 (26.0), 3331 x 3002 21.4
    // (29.4), 660 x 15148 25.6 (42.2). Two rows a block of over 1,024 words, with tables: 4764 x 4198 32.5 (now 33.9), but 6662 x
    // 3002 30.1 (28.9), 1666 x 12002 42.9. A copy of these bytes, without the modulation of a row each, takes 19.7, where that is
    // half of them. By elements, in common: 136054 x 147 29.4 (39.2), 2355 x 849 5.3 (6.9), 799 x 2501 5.9 (7.3), of more rows slower
    // than in phases; each: 158730 x 63 25.1 (81.2), 11778 x 849 25.3 (31.3), 5002 x 1999 26.0 (31.1). 257 to 384 accesses by a warp
    // of 12 each (by 128 threads of 4): 36630 x 273 each 28.3 (44.9), 66445 x 301 in common 32.7 (in phases 33.7), 34364 x 582 26.8
    // (33.3), but 1718 x 582 each 3.6 (3.3), and of fewer rows by elements 4578 x 273 4.7 (6.1).
    // Layouts that fit better (those above): words in common 410922 x 78 37.0 (47.5), without tables 38.9 (40.7), but 30000 x 78 5.6
    // (4.3), 200000 x 94 22.5 (24.9), each 300000 x 78 45.4 (49.5); elements each 76957 x 273 49.6 (57.8), without tables 47.8 (49.1),
    // gated 30000 x 273 34.8 (38.6), 40000 x 501 46.0 (51.4), 1000 x 501 3.4 (3.7), in common 66957 x 273 28.3 (32.2).
    // Gated, with tables (before, by adaln_unaligned, in groups or phases): each 153361 x 34 20.3 (115), 82766 x 63 22.5 (65.0), 35471
    // x 147 22.9 (32.2), 10387 x 502 19.8 (23.0), 1736 x 3002 20.5 (27.7), 744 x 7004 25.3 (31.2), 531 x 9806 24.5 (36.8), of odd rows
    // of over 384 no more than 24.6 (24.0); in common 268382 x 34 26.1 (104), 62074 x 147 32.5 (38.9), 18177 x 502 22.4 (29.9), 3039 x
    // 3002 23.7 (28.8), 930 x 9806 30.8 (46.4). A copy takes 17.9.
    {kWord, kAlone, 0, 24, kAny, {8, 3, 1}, {8, 3, 2}},
    {kWord, kAlone, 0, 40, 100000, {16, 4, 1}, {16, 4, 2}},
    {kWord, kAlone, 0, 40, kAny, {16, 4, 1}, {8, 5, 2}},
    {kWord, kAlone, 0, 64, kAny, {16, 4, 1}, {16, 4, 2}},
    {kWord, kAlone, 0, 96, kAny, {16, 6, 1}, {16, 6, 2}},
    {kWord, kAlone, 0, 128, kAny, {32, 4, 1}, {32, 4, 2}},
    {kWord, kAlone, 0, 192, kAny, {32, 6, 1}, {32, 6, 2}},
    {kWord, kAlone, 0, 256, kAny, {32, 8, 1}, {32, 8, 2}},
    {kWord, kAlone, 0, 384, 5000, {128, 4, 1}, {128, 4, 2}},
    {kWord, kAlone, 0, 384, kAny, {32, 12, 1}, {32, 12, 2}},
    {kWord, kAlone, 0, 512, kAny, {128, 4, 1}, {128, 4, 2}},
    {kWord, kAlone, 0, 1024, kAny, {128, 8, 1}, {128, 8, 1}},
    {kWord, kAlone, 0, 2048, kAny, {256, 8, 1}, {256, 8, 1}},
    {kWord, kAlone, 0, 4096, kAny, {512, 8, 1}, {512, 8, 1}},
    {kWord, kAlone, 0, 8192, kAny, {512, 16, 1}, {512, 16, 1}},
    {kWord, kTables, 0, 24, kAny, {8, 3, 1}, {8, 3, 2}},
    {kWord, kTables, 0, 40, kAny, {8, 5, 1}, {8, 5, 2}},
    {kWord, kTables, 0, 48, kAny, {16, 4, 1}, {16, 3, 2}},
    {kWord, kTables, 0, 64, kAny, {16, 4, 1}, {16, 4, 2}},
    {kWord, kTables, 0, 96, kAny, {16, 6, 1}, {16, 6, 2}},
    {kWord, kTables, 0, 128, kAny, {32, 4, 1}, {32, 4, 2}},
    {kWord, kTables, 0, 192, kAny, {32, 6, 1}, {32, 6, 2}},
    {kWord, kTables, 0, 256, kAny, {32, 8, 1}, {32, 8, 2}},
    {kWord, kTables, 0, 384, 2500, {128, 4, 1}, {128, 4, 2}},
    {kWord, kTables, 0, 384, kAny, {32, 12, 1}, {32, 12, 2}},
    {kWord, kTables, 0, 512, kAny, {128, 4, 1}, {128, 4, 2}},
    {kWord, kTables, 0, 1024, kAny, {128, 8, 1}, {128, 8, 2}},
    {kWord, kTables, 0, 2048, kAny, {256, 8, 1}, {256, 8, 1}},
    {kWord, kTables, 0, 4096, kAny, {256, 16, 1}, {256, 16, 1}},
    {kWord, kTables, 0, 6144, kAny, {512, 12, 1}, {512, 12, 1}},
    {kWord, kTables, 0, 8192, kAny, {512, 16, 1}, {512, 16, 1}},
    {kWord, kGated, 0, 32, kAny, {8, 4, 1}, {8, 4, 2}},
    {kWord, kGated, 0, 64, kAny, {16, 4, 1}, {16, 4, 2}},
    {kWord, kGated, 0, 128, kAny, {32, 4, 1}, {32, 4, 1}},
    {kWord, kGated, 0, 192, kAny, {32, 6, 1}, {32, 6, 1}},
    {kWord, kGated, 0, 256, 5000, {32, 8, 1}, {32, 8, 1}},
    {kWord, kGated, 0, 256, kAny, {32, 8, 1}, {32, 8, 2, kHalf}},
    {kWord, kGated, 0, 384, kAny, {32, 12, 1}, {32, 12, 1}},
    {kWord, kGated, 0, 1024, kAny, {128, 8, 1}, {128, 8, 1}},
    {kWord, kGated, 0, 5120, kAny, {512, 10, 1}, {512, 10, 1}},
    {kWord, kGated, 0, 8192, kAny, {512, 16, 1, kHalf}, {512, 16, 1, kHalf}},
    {kElement, kTables, 0, 320, kAny, {32, 10, 1}, {32, 10, 2}},
    {kElement, kTables, 0, 384, kAny, {32, 12, 1}, {32, 12, 2}},
    {kElement, kTables, 0, 512, 8000, {32, 16, 1}, {128, 4, 2}},
    {kElement, kTables, 0, 512, kAny, {32, 16, 1}, {}},
    {kElement, kTables, 0, 1024, 5000, {128, 8, 1}, {128, 8, 1}},
    {kElement, kTables, 0, 1024, kAny, {128, 8, 1}, {}},
    {kElement, kTables, 0, 2048, 2500, {256, 8, 1}, {256, 8, 1}},
    {kElement, kTables, 0, 2048, kAny, {256, 8, 1}, {}},
    {kElement, kTables, 0, 4096, 1200, {512, 8, 1}, {512, 8, 1}},
    {kElement, kTables, 0, 4096, kAny, {512, 8, 1}, {}},
    {kElement, kAlone, 0, 320, kAny, {32, 10, 1}, {32, 10, 2}},
    {kElement, kAlone, 0, 384, kAny, {32, 12, 1}, {32, 12, 2}},
    {kElement, kAlone, 0, 512, 4000, {128, 4, 1}, {128, 4, 2}},
    {kElement, kAlone, 0, 512, kAny, {}, {}},
    {kElement, kAlone, 0, 1024, 5000, {128, 8, 1}, {128, 8, 1}},
    {kElement, kAlone, 0, 1024, kAny, {128, 8, 1}, {}},
    {kElement, kAlone, 0, 2048, 2500, {256, 8, 1}, {256, 8, 1}},
    {kElement, kAlone, 0, 2048, kAny, {256, 8, 1}, {}},
    {kElement, kAlone, 0, 4096, 1200, {512, 8, 1}, {512, 8, 1}},
    {kElement, kAlone, 0, 4096, kAny, {512, 8, 1}, {}},
    {kElement, kGated, 0, 320, 5000, {32, 10, 1}, {32, 10, 1}},
    {kElement, kGated, 0, 320, kAny, {32, 10, 1}, {}},
    {kElement, kGated, 0, 384, 5000, {32, 12, 1}, {32, 12, 1}},
    {kElement, kGated, 0, 384, kAny, {32, 12, 1}, {}},
    {kElement, kGated, 0, 1024, 3000, {128, 8, 1}, {}},
};

// Rows of kUnaligned of more than kPersistentPacks packs and kPersistentAtLeast packs or more in all: those with a modulation in
// common, if the card holds the blocks of all modulations at once, and those with one each, if it begins at the same place between
// multiples of 16 bytes as the row. In fp32, where an element is a word, and adaln_uniform needs fewer accesses, rows of more than
// kPersistentWords packs, gated of more than twice as many.
// H200, times what the other kernels take, bf16: layer_norm 4224 x 401 0.88, 2112 x 401 1.15, 2112 x 1301 0.85, 1056 x 1301 1.06, 1056
// x 3001 0.89, 528 x 3001 1.09, 528 x 9001 0.61, 528 x 15149 0.84, 264 x 15149 1.11; adaln with tables 16896 x 849 0.73, 4224 x 3001
// 0.76, 2112 x 12001 0.50, with a modulation each 4224 x 3001 0.88, 2112 x 2002 1.00, 1056 x 9001 0.58; gated 16896 x 2002 0.92, 2112 x
// 5003 0.61, each 2112 x 3001 0.72. Of up to 32 packs slower: 16896 x 201 1.17, each 1.22. fp32: adaln 4880 x 2049 0.79, 2221 x 4501
// 0.66, each 0.87, but 15360 x 651 1.02, each 9980 x 501 1.06; gated 2499 x 2501 1.00, each 1428 x 2501 1.02, 1041 x 6001 0.55.
struct PersistentTuning {
  int64_t packs;  // of 16 bytes a row, at most
  PersistentLayout common, own;              // layer_norm, adaln: a modulation in common, or each its own
  PersistentLayout gated_common, gated_own;  // gate_residual_adaln
};
constexpr PersistentLayout kPersistentFiner = {512, 2, 512};  // where the modulations leave too many SMs without a block
constexpr int64_t kPersistentPacks = 48, kPersistentWords = 512, kPersistentAtLeast = 327680;

constexpr PersistentTuning kPersistentTuning[] = {
    // H200, % of a copy at some 100 MB. In common: 41597 x 601 82 (512 x 2 of 512 75), 19215 x 1301 85 (512 x 3 of 1024 83), 8330 x 3001
    // 84 (512 x 2 of 512 80), 4997 x 5003 84 (1024 x 2 of 1024 84), 2777 x 9001 84 (71), 2083 x 12001 80 (74); each 4165 x 3001 93 (1024 x
    // 2 of 1024 89), 2498 x 5003 91 (512 x 3 of 1024 89), 1388 x 9001 89 (1024 x 2 of 1024 80); gated 5432 x 2301 84 (1024 x 2 of 1024 81),
    // 2498 x 5003 81 (512 x 2 of 512 77), 1784 x 7004 80 (70), each 3104 x 2301 91 (1024 x 2 of 1024 84).
    {96, {512, 3, 1024}, {512, 2, 512}, {512, 2, 512}, {512, 2, 512}},
    {256, {512, 2, 512}, {512, 2, 512}, {512, 2, 512}, {512, 2, 512}},
    {512, {512, 3, 1024}, {512, 2, 512}, {512, 2, 512}, {512, 2, 512}},
    {1024, {512, 3, 1024}, {1024, 2, 1024}, {1024, 2, 1024}, {1024, 2, 1024}},
    {1536, {512, 3, 1024}, {512, 3, 1024}, {1024, 2, 1024}, {1024, 2, 1024}},
    {2048, {1024, 2, 1024}, {1024, 2, 1024}, {1024, 2, 1024}, {1024, 2, 1024}},
};

// Few wide rows, not gated.
struct ClusterTuning {
  int arch;
  int access;  // 16 bytes, or an element for rows that are no whole number of them
  int64_t packs, rows;  // at most
  ClusterLayout alone;   // a scale and a shift alone
  ClusterLayout tables;  // or with tables, weight or bias
};

constexpr ClusterTuning kClusterTuning[] = {
    // H200, bf16, us (before): layer_norm 16 x 6144 1.9 (2.4), 1 x 8192 1.6 (2.6), 1 x 16384 1.9 (4.3), 32 x 16384 2.9 (4.6), but 33 x
    // 12288 3.0 by adaln_affine, too; adaln with tables 6 x 6592 1.5 (2.3), 11 x 13104 2.0 (3.5), 32 x 16384 2.7 (4.3), 64 x 12288
    // 3.2 (3.7). Of 100 rows most would take longer.
    {90, 16, 640, kAny, {}, {}},
    {90, 16, 1024, 16, {8, 128, 1}, {8, 128, 1}},
    {90, 16, 1024, 32, {}, {8, 128, 1}},
    {90, 16, 1280, 16, {8, 128, 2}, {8, 128, 2}},
    {90, 16, 1280, 32, {}, {8, 128, 2}},
    {90, 16, 2048, 32, {8, 128, 2}, {8, 128, 2}},
    {90, 16, 896, kAny, {}, {}},
    {90, 16, 2048, 64, {}, {2, 512, 2}},
    // bf16, with tables: 2 x 7013 1.9 us (4.3), 19 x 3578 2.0 (3.2), 31 x 12125 3.7 (6.6), layer_norm 32 x 9001 3.8 (4.4), but 64 x
    // 9001 6.0 (5.9), 64 x 1027 2.8 (2.4).
    {90, kElement, 1024, kAny, {}, {}},
    {90, kElement, 4096, 32, {8, 128, 4}, {8, 128, 4}},
    {90, kElement, 8192, 32, {8, 128, 8}, {8, 128, 8}},
    {90, kElement, 16384, 32, {8, 128, 16}, {8, 128, 16}},
};

constexpr Tuning kTuning[] = {
    // H100 (132 SMs of 2048 threads, 50 MB of L2, 3.35 TB/s): rows without modulation in common, and what has no row in
    // the table below. All other cards: the same, as an estimate. 11 to 15 KB in flight an SM fill an A100's latency, and one
    // pack a thread has 24 KB; 5 KB a T4's.
    {75, 16, 8, kAny, {8, 1}, {8, 1}},        // 64 bf16: 16 rows a block, no barrier
    {75, 16, 16, kAny, {16, 1}, {16, 1}},     // 128
    {75, 16, 32, kAny, {32, 1}, {32, 1}},     // 256: 4 rows a block, no barrier
    {75, 16, 40, 16383, {64, 2}, {64, 2}},
    {75, 16, 40, kAny, {32, 2}, {32, 2}},     // 320: less time by 10 %, and more by 5 % where there are 5,000 rows
    {75, 16, 64, kAny, {64, 1}, {256, 1}},    // 512: 2 rows a block; adaln 30105 x 384, a modulation a row: 103 % (64 x 2 98)
    {75, 16, 96, kAny, {64, 2}, {256, 1}},    // H200, us: adaln 1055 x 576 2.8 (128 x 1 3.4), 20000 x 576 25.1 (26.3)
    {75, 16, 128, 800, {64, 2}, {256, 1}},    // to 1024; gated 4761 x 704 100 % (64 x 2 94), 20000 x 400 100 (96)
    {75, 16, 128, kAny, {128, 1}, {256, 1}},  // layer_norm 1500 x 896 94 % (64 x 2 87), but 700 x 896 78 (87)
    {75, 16, 256, kAny, {256, 1}, {256, 1}},  // 1152, 1536, LTX's 2048
    {75, 16, 512, kAny, {512, 1}, {512, 1}},  // 3072, 4096, f32's 2048
    {75, 16, 1024, kAny, {512, 2}, {512, 2}},   // 8192, f32's 4096
    {75, 16, 2048, 264, {1024, 2}, {1024, 2}},  // 16384: the latency of one or two rows an SM counts
    {80, 16, 1152, kAny, {512, 3}, {1024, 2}},  // 9216: two blocks an SM. 4482 x 8640 100 % of a copy, in shared memory 93
    {80, 16, 1536, kAny, {1024, 2}, {1024, 2}},  // 12288: 1347 x 9664 91 % (512 x 3 84), 2600 x 9664 88 (83, in shared memory 89)
    {80, 16, 2048, kAny, {512, kShared}, {1024, 2}},
    {80, 16, 4096, kAny, {512, kShared}, {512, kShared}},    // 32768: 64 KB, three rows an SM
    {80, 16, 8192, kAny, {1024, kShared}, {1024, kShared}},  // 65536: 128 KB, one row an SM
    {75, 16, 2560, kAny, {512, kShared}, {512, kShared}},    // T4, an estimate: 40 KB, where two blocks have 32
    {75, 16, kAny, kAny, {1024, kReread}, {1024, kReread}},
    // Bf16, each row with a modulation of its own, % of a copy: adaln 60000 x 519 95 (512 x 1 83), 20000 x 1001 95 (64 x 2 91), 8000 x
    // 2001 90 (512 x 1 87), 3000 x 5003 84; gated 20000 x 307 77 (32 x 4 68), 4571 x 690 81 (64 x 2 64), 10000 x 1001 94 (83),
    // 5000 x 2001 93 (1024 x 2 83). Few rows, microseconds of layer_norm: 528 x 1027 3.1 (elements 3.7), 264 x 3001 4.2 (elements 4.4,
    // 1024 x 2 4.5), 528 x 3803 6.1 (elements 12.4, 512 x 1 8.0), 100 x 300 2.5 (elements 2.3), 73 x 1801 2.8 (2.9).
    // 512 x 1 for up to 256 packs bounds the registers at half; H200, us: gated 29113 x 300 45.6 (512 x 1 49.9), x 537 63.6 (66.3),
    // adaln 5000 x 537 10.8 (64 x 2 11.6).
    {75, kUnaligned, 80, kAny, {64, 2}, {256, 1}},
    {75, kUnaligned, 192, kAny, {256, 1}, {256, 1}},
    {75, kUnaligned, 256, kFew, {256, 1}, {256, 1}},
    {75, kUnaligned, 256, kAny, {1024, 2}, {256, 1}},
    {75, kUnaligned, 512, 264, {512, 1}, {512, 1}},
    {75, kUnaligned, 2048, kAny, {1024, 2}, {1024, 2}},
    {75, kUnaligned, kAny, kAny, {1024, kReread}, {1024, kReread}},
    {75, kElement, kNarrow, kAny, {32, 8}, {32, 8}},
    {75, kElement, 1024, kFew, {128, 8}, {128, 8}},
    {75, kElement, kLessNarrow, kFew, {512, 8}, {512, 8}},
    {75, kElement, 512, kAny, {128, kShared}, {128, kShared}},
    {75, kElement, 8192, kAny, {512, kShared}, {512, kShared}},
    {75, kElement, kAny, kAny, {1024, kReread}, {1024, kReread}},
};

// For rows with a modulation in common: used where each modulation has rows for four blocks or more, and the launch for
// kGroupBlocksAtLeast or more, twice that many of kUnaligned whose rows a block shares, and kNarrowBlocksAtLeast where up to 32
// threads share four rows and nothing is gated; else the table above.
constexpr int64_t kGroupBlocksAtLeast = 128, kNarrowBlocksAtLeast = 480;
struct GroupTuning {
  int arch;
  int access;
  int64_t packs;  // accesses a row, at most
  int64_t rows;   // at least
  GroupLayout rms, layer;  // adaln on an RMSNorm; layer_norm, and adaln on a LayerNorm, which takes two sums a row
  GroupLayout gated;       // gate_residual_adaln
};

constexpr GroupTuning kGroupTuning[] = {
    // What is said of rows that are not gated is from before kAffineTuning and kUniformTuning, which have most of them now. Here are
    // those with weight and bias beside a modulation, whole rows with tables on an RMSNorm (H200: 5376 x 2048 13.7 us, by
    // adaln_uniform 14.5), and many odd rows.
    // H100. Measured, % of a copy of the same bytes, bf16, at 38 to 264 MB (LTX-Video at 49 and 161 frames, its 13B, AdaLN
    // Zero and PixArt), beside kTuning's layouts (r) and the best of the other groups (threads x packs x rows):
    //   Every layout with the warps that the row needs, microseconds of 8192 rows: 1152 adaln 256 x 1 x 4 16.4 (384 x 1 x 2 16.8,
    //         128 x 2 x 2 17.6, r 20.0), 1536 384 x 1 x 2 20.2 (256 x 1 x 4 20.7, 128 x 2 x 2 21.3, r 23.7); of 8960 x 5120: adaln
    //         512 x 2 x 2 65.7 (384 x 2 x 2 72.2, 640 x 1 x 2 74.1, r 76.7), gated 512 x 2 x 1 130.4 (640 x 1 x 1 138.2, r 133.7)
    //   2048: adaln 98 at 44 MB, 99 at 132 (128 x 2 x 2 97, 99; r 91, 97); gated 97 at 88 MB, 99 at 264 (r 94, 98)
    //   3072: adaln 98 (384 x 1 x 3 97, 384 x 1 x 4 96, 128 x 3 x 2 95, r 82); gated 98 (r 85)
    //   4096: adaln 97 (256 x 2 x 3 96, 256 x 2 x 2 96, 512 x 1 x 4 94, 128 x 4 x 1 88, r 90); layer_norm 97 (512 x 1 x 2
    //         95, 512 x 1 x 4 95, 256 x 2 x 4 96, r 81: benches/gpu/trials.toml); gated 98
    //         (r 93). With the scale and shift fetched later, gated: 512 x 1 x 3 level with 512 x 1 x 2, 256 x 2 x 1 2
    //         behind, 128 x 4 x 1 8.
    //   f32 4096: layer_norm 97 (512 x 2 x 1 90, 1024 x 1 x 4 81, 1024 x 1 x 2 66; one block an SM of 512 x 2 x 2 79; r 90)
    //   By rows: layer_norm 187954 x 320 16 x 3 x 2 98 (32 x 2 x 2 95), but 3350 x 320 70 (76); adaln 67900 x 832 128 x 1 x 4 99
    //         (128 x 1 x 2 90), but layer_norm 2831 x 728 70 (84): its last wave has few blocks; adaln 39988 x 1344 256 x 1 x 4
    //         98 (384 x 1 x 2 92); layer_norm 1500 x 3968 256 x 2 x 2 74 (256 x 2 x 3 71), 700 x 3968 76 (67), 524 x 3464
    //         512 x 1 x 2 78 (70). With the next rows prefetched adaln 7179 x 9408 95 (89), gated 6296 x 6080 94 (90)
    // Slower too: modulation in shared memory (93 at 2048), and persistent blocks that prefetch the next row (93; 83 where a
    // block's rows are far apart): their loads and stores alternate, where those of many short blocks overlap.
    // Narrow gated rows are limited by instructions, of which a thread needs fewer where several rows share its modulation. Of some
    // ten thousand rows: 64 94 % (r 89), 128 98 (95), 256 97 (95), 3000 x 9000 86 (80), 3000 x 12288 93 (89).
    // Rows that are no whole number of 16 bytes, bf16, % of a copy; before, with adaln_unaligned: layer_norm 100000 x 230 88
    // (79; 16 x 3 x 2 84), 156363 x 499 95 (73), 60000 x 771 93 (82), 30000 x 1999 94 (77), 20000 x 3001 94 (75; 512 x 1 x 4
    // 86), 12000 x 5001 92 (72), 4798 x 12727 70 (45); adaln 71530 x 250 84 (78; 16 x 3 x 2 78), 40491 x 1353 93 (61; 256 x 2 x 3
    // 91), 30000 x 2567 92 (65); gated 30000 x 1353 93 (78; 256 x 2 x 2 86), 20000 x 3001 94 (86; 256 x 2 x 2 89). Of few rows adaln
    // 1027 x 3803 68 (256 x 2 x 3 60, r 50), 1027 x 1953 61 (elements 48). Gated, H200, us: 20322 x 449 26.6 (32 x 2 x 2 31.5).
    {80, kUnaligned, 32, 0, {32, 2, 4}, {32, 2, 4}, {}},
    {80, kUnaligned, 48, 0, {16, 3, 2}, {16, 3, 2}, {512, 1, 3}},
    {80, kUnaligned, 64, 0, {32, 2, 4}, {32, 2, 4}, {512, 1, 3}},
    {80, kUnaligned, 128, 2000, {512, 1, 4}, {512, 1, 4}, {512, 1, 3}},
    {80, kUnaligned, 128, 0, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},  // kTuning: layer_norm 1027 x 519 3.0 us (512 x 1 x 4 3.8)
    {80, kUnaligned, 256, 16000, {512, 1, 4}, {256, 2, 3}, {512, 1, 3}},  // H200, us: layer_norm 30000 x 1999 64.2 (512 x 1 x 4 74.3)
    {80, kUnaligned, 256, 0, {512, 1, 4}, {512, 1, 4}, {512, 1, 3}},
    {80, kUnaligned, 512, 2000, {256, 2, 3}, {256, 2, 3}, {512, 1, 3}},
    {80, kUnaligned, 512, 0, {512, 1, 4}, {512, 2, 2}, {512, 1, 3}},
    {80, kUnaligned, 1024, 0, {512, 2, 2}, {512, 2, 2}, {512, 2, 1}},
    // Gated rows that two blocks an SM hold in two packs a thread: 4000 x 9001 71 % (512 x 4 x 1 63), but 3000 x 12001 62 (64).
    {80, kUnaligned, 1152, 0, {512, 4, 1}, {512, 4, 1}, {}},
    {80, kUnaligned, 2048, 0, {512, 4, 1}, {512, 4, 1}, {512, 4, 1}},
    {80, 16, 8, 0, {8, 1, 4}, {8, 1, 4}, {8, 1, 4}},
    {80, 16, 16, 0, {16, 1, 4}, {16, 1, 4}, {16, 1, 4}},
    {80, 16, 32, 0, {32, 1, 4}, {32, 1, 4}, {32, 1, 2}},
    {80, 16, 64, 1400, {32, 2, 2}, {32, 2, 2}, {128, 1, 2}},
    {80, 16, 128, 2113, {128, 1, 2}, {128, 1, 2}, {128, 1, 2}},
    {80, 16, 128, 0, {}, {}, {128, 1, 2}},
    {80, 16, 256, 0, {256, 1, 4}, {256, 1, 4}, {256, 1, 3}},
    {90, 16, 384, 0, {256, 2, 3}, {256, 2, 3}, {384, 1, 2}},
    {80, 16, 512, 0, {256, 2, 3}, {256, 2, 3}, {512, 1, 2}},
    // Gated, some 1,000 rows, a row a block with its modulation fetched before the sums: 962 x 5120 87 % (512 x 2 x 1 79), but 300 x
    // 5120 72 (77) and 962 x 5568 65 (72).
    {90, 16, 640, 2500, {512, 2, 2}, {512, 2, 2}, {1024, 2, 1}},
    {90, 16, 640, 400, {512, 2, 2}, {512, 2, 2}, {}},
    {90, 16, 640, 0, {512, 2, 2}, {512, 2, 2}, {512, 2, 1}},
    // Gated 6000 x 8192 94 % (87).
    {90, 16, 1024, 900, {512, 2, 2}, {512, 2, 2}, {1024, 2, 1}},
    {90, 16, 1024, 0, {512, 2, 2}, {512, 2, 2}, {512, 2, 1}},
    // Of 132 rows, one an SM, kTuning's are faster: 131 x 9792 layer_norm 5.0 us (6.1); of 210 slower: 8.2 (7.5).
    {90, 16, 1536, 1200, {512, 4, 1}, {512, 4, 1}, {1024, 2, 1}},
    {90, 16, 1536, 133, {512, 4, 1}, {512, 4, 1}, {}},  // gated 368 x 10176 18.4 us (1024 x 2 x 1 19.7)
    {90, 16, 2048, 133, {512, 4, 1}, {512, 4, 1}, {}},
};

// gate_residual: threads a block, each with one pack. On an H100 64 to 512 threads, and two packs a thread, are within 1 %.
constexpr int kGateThreads = 256;
// Rows side by side that are no whole number of 16 bytes are accessed a word or an element at a time up to so many elements, and 16
// bytes at a time from there on. H200, bf16, us: 3816 x 262 3.3 by words (3.9 by 16 bytes), 79365 x 126 24.6 (16.5).
constexpr int64_t kFewWords = 1 << 21;

// The row for code of `arch`; null where there is none, which is below the oldest.
constexpr const Tuning* find_adaln_tuning(int arch, int access, int64_t packs, int64_t rows) {
  for (const Tuning& row : kTuning)
    if (row.arch <= arch && row.access == access && packs <= row.packs && rows <= row.rows) return &row;
  return nullptr;
}

// No threads where there is no row.
constexpr Layout find_affine_layout(int64_t packs, int64_t rows) {
  for (const AffineTuning& row : kAffineTuning)
    if (packs <= row.packs && rows <= row.rows) return row.layout;
  return {0, 0};
}
constexpr const UniformTuning* find_uniform_tuning(int access, Kind kind, int layer, int64_t packs, int64_t rows) {
  if (access == kElement && packs <= kElementsAsWords) access = kWord;
  for (const UniformTuning& row : kUniformTuning)
    if (row.access == access && row.kind == kind && row.layer <= layer && packs <= row.packs && rows <= row.rows) return &row;
  return nullptr;
}
constexpr PersistentLayout find_persistent_layout(int arch, bool words, int64_t packs, int64_t rows, bool gated, bool own) {
  const int64_t narrow = !words ? kPersistentPacks : gated ? 2 * kPersistentWords : kPersistentWords;
  if (arch < kPersistentFrom || packs <= narrow || rows * packs < kPersistentAtLeast) return {0, 0, 0};
  for (const PersistentTuning& row : kPersistentTuning)
    if (packs <= row.packs) return gated ? own ? row.gated_own : row.gated_common : own ? row.own : row.common;
  return {0, 0, 0};
}
constexpr ClusterLayout find_cluster_layout(int arch, int access, int64_t packs, int64_t rows, bool tables) {
  for (const ClusterTuning& row : kClusterTuning)
    if (row.arch <= arch && row.access == access && packs <= row.packs && rows <= row.rows) return tables ? row.tables : row.alone;
  return {0, 0, 0};
}
constexpr GroupLayout find_group_layout(int arch, int access, int64_t packs, int64_t rows, bool gated, bool layer) {
  for (const GroupTuning& row : kGroupTuning)
    if (row.arch <= arch && row.access == access && packs <= row.packs && rows >= row.rows)
      return gated ? row.gated : layer ? row.layer : row.rms;
  return {0, 0, 0};
}

constexpr bool is_compiled(const Layout& layout, int access) {
  if (layout.packs <= 0) return layout.threads >= 32 && layout.threads <= 1024 && layout.threads % 32 == 0;
  bool found = false;
#define ADALN_SAME(THREADS, PACKS) found = found || (layout.threads == THREADS && layout.packs == PACKS);
  if (access == 16) {
    ADALN_LAYOUTS(ADALN_SAME)
  } else if (access == kUnaligned) {
    ADALN_UNALIGNED_LAYOUTS(ADALN_SAME)
  } else {
    ADALN_ELEMENT_LAYOUTS(ADALN_SAME)
  }
#undef ADALN_SAME
  return found;
}

// What a block may have of shared memory on the cards that a row is for, less what the kernel itself has. Where another
// card has less, the launcher has the row read again.
constexpr int64_t shared_bytes(int arch) { return (arch >= 90 ? 227 : arch >= 80 ? 163 : 48) * 1024 - 256; }

constexpr bool tables_are_sound() {
  for (const Tuning& row : kTuning) {
    for (const Layout& l : {row.alone, row.gated}) {
      if (!is_compiled(l, row.access)) return false;
      const int64_t bytes = row.access == 16 ? 16 : 4;
      if (l.packs == kShared && row.packs > shared_bytes(row.arch) / bytes) return false;
      if (l.packs > 0 && static_cast<int64_t>(l.threads) * l.packs < row.packs) return false;
    }
  }
  for (const auto& [packs, rows, layout] : kAffineTuning) {
    bool compiled = layout.threads == 0;
#define ADALN_SAME(THREADS, PACKS, BLOCKS) \
  compiled = compiled || (layout.threads == THREADS && layout.packs == PACKS && THREADS * PACKS >= packs);
    ADALN_AFFINE_LAYOUTS(ADALN_SAME)
#undef ADALN_SAME
    if (!compiled) return false;
  }
  for (const UniformTuning& row : kUniformTuning) {
    if (row.own.rows > 1) return false;
    for (const GroupLayout& l : {row.own, row.common}) {
      bool compiled = l.threads == 0;
      const auto same = [&](const GroupLayout& other) {
        return l.threads == other.threads && l.packs == other.packs && l.rows == other.rows && l.fetch == other.fetch &&
               l.threads * l.packs >= row.packs;
      };
#define ADALN_SAME(KIND, THREADS, PACKS, ROWS, FETCH, BLOCKS) \
  compiled = compiled || (row.access == 16 && row.kind == KIND && same({THREADS, PACKS, ROWS, FETCH}));
      ADALN_PACK_LAYOUTS(ADALN_SAME)
#undef ADALN_SAME
      const bool of_elements = row.access == kElement || (row.access == kWord && row.packs <= kElementsAsWords);
      const bool narrow = row.access != 16 && (!of_elements || is_of_elements(l));
#define ADALN_SAME(KIND, THREADS, PACKS, ROWS, FETCH, BLOCKS) \
  compiled = compiled || (narrow && row.kind == KIND && same({THREADS, PACKS, ROWS, FETCH}));
      ADALN_WORD_LAYOUTS(ADALN_SAME)
#undef ADALN_SAME
      if (!compiled) return false;
    }
  }
  for (const ClusterTuning& row : kClusterTuning) {
    for (const ClusterLayout& l : {row.alone, row.tables}) {
      bool compiled = l.blocks == 0;
#define ADALN_SAME(ACCESS, BLOCKS, THREADS, PACKS) \
  compiled = compiled || (row.access == ACCESS && l.blocks == BLOCKS && l.threads == THREADS && l.packs == PACKS);
      ADALN_CLUSTER_LAYOUTS(ADALN_SAME)
#undef ADALN_SAME
      if (!compiled || (l.blocks != 0 && int64_t{l.blocks} * l.threads * l.packs < row.packs)) return false;
    }
  }
  for (const GroupTuning& row : kGroupTuning) {
    for (const GroupLayout* layout : {&row.rms, &row.layer, &row.gated}) {
      const GroupLayout& l = *layout;
      const bool gated = layout == &row.gated;
      if (l.threads == 0) continue;
      bool compiled = false;
#define ADALN_SAME(ACCESS, THREADS, PACKS, ROWS, GATED, BLOCKS, FIRST)                                                  \
  compiled = compiled || (row.access == ACCESS && l.threads == THREADS && l.packs == PACKS && l.rows == ROWS && gated == GATED && \
                          row.arch >= FIRST);
      ADALN_GROUP_LAYOUTS(ADALN_SAME)
#undef ADALN_SAME
      if (!compiled || static_cast<int64_t>(l.threads) * l.packs < row.packs) return false;
    }
  }
  for (const PersistentTuning& row : kPersistentTuning) {
    int i = 0;
    for (const PersistentLayout& l : {row.common, row.own, row.gated_common, row.gated_own}) {
      const bool gated = i++ >= 2;
      bool compiled = l.threads == 0;
#define ADALN_SAME(THREADS, PACKS, BLOCK, GATED) \
  compiled = compiled || (l.threads == THREADS && l.packs == PACKS && l.block == BLOCK && gated == GATED && THREADS * PACKS >= row.packs);
      ADALN_PERSISTENT_LAYOUTS(ADALN_SAME)
#undef ADALN_SAME
      if (!compiled) return false;
    }
  }
  for (const int access : {16, kUnaligned, kElement})  // every launch finds a row
    if (find_adaln_tuning(kOldest, access, kAny, kAny) == nullptr) return false;
  return true;
}
static_assert(tables_are_sound(), "a row of a tuning table names a layout that is not compiled or is too narrow");

}  // namespace adaln
