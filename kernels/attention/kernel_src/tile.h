// How the work is cut, by the size of a head.
#pragma once
#include <cstdint>

namespace attention {

// A warp takes 32 queries, so that each fragment of K and V that it reads from shared memory is multiplied twice: with
// 16, shared memory (128 bytes a cycle) would hold the tensor cores up.
constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kWarpQueries = 32, kQueries = kWarps * kWarpQueries;

// With a causal mask the longest tile of queries has twice the keys of the mean one, and half an SM. With fewer than two
// tiles for each of the blocks that a card holds at once (264 on an H100) it would end last: two groups of warps share a
// tile's keys then, and have an SM for it. Somewhat fewer, since no other block works there while one begins or ends.
constexpr int kFewTiles = 448;
// The last architecture where that fits into the registers.
constexpr int kLastOfTwo = 119;

template <int kDim>
struct Tile {
  // Keys of a step. The scores are kWarpQueries * kKeys / 32 registers a thread, the output kWarpQueries * kDim / 32:
  // 128 + 64 for a dimension of 64, 64 + 128 for one of 128, which leaves as much as the fragments need of the 255. The
  // queries do not stay in registers then (kDim more): shared memory gives them again at each step. For a dimension of 64
  // that is 5 % faster on an H100 than steps of 64 keys with queries in registers: half as many barriers and rescalings.
  static constexpr int kKeys = kDim <= 64 ? 128 : 64;
  // Blocks that an SM is to hold at once: while one works out exponentials, another multiplies. 2 leave 255 registers.
  static constexpr int kBlocks = 2;
  static constexpr int kRowBytes = kDim * 2;
  static constexpr int kQueryBytes = kQueries * kRowBytes, kKeyBytes = kKeys * kRowBytes;
  // Q, and one tile each of K and V for each group of warps. With one group that is 64 KB for a dimension of 128, so that
  // two blocks fit on an SM of an A100, too; with two it is 96 KB, which any SM has.
  static constexpr int shared_bytes(int groups) { return kQueryBytes + groups * 2 * kKeyBytes; }
};

}  // namespace attention
