// What is fast, and so how a launch is dealt out. Constants: one set for all cards.
#pragma once
#include <cstdint>

namespace column_sum {

// A block has a strip of columns, 32 lanes wide at most, and goes down a group of rows with all its threads. A strip of 32
// accesses of 16 bytes is 512 bytes of a row; wider ones would leave more groups, and so more partial sums, for the same
// number of blocks.
constexpr int kThreads = 256;
constexpr int kMostLanes = 32;

// On sm_90 the groups of a strip can be a cluster, and then there is no second kernel.
constexpr int kMostBlocksOfACluster = 8;  // more are not portable
constexpr bool is_cluster(int64_t groups) { return groups == 2 || groups == 4 || groups == kMostBlocksOfACluster; }

// Blocks that are to stand on an SM at once, which bounds a thread to 64 registers.
constexpr int kBlocksOfAnSM = 4;

// Loads of a thread that are under way together. H100: 20 to 40 KB an SM fill the memory's latency; eight of 16 bytes in
// 1,024 threads are 128 KB, sixteen of two bytes 32 KB. An A100 needs less, a T4 5 KB. Four in 2,048 threads, twice
// four in turns, twice and four times as many groups, and loads that leave no line in L1 were all slower or level (H100):
// what is lost is some 4 us at the end, in the second kernel, so 84 % of a copy at 67 MB, 92 at 134 and 97 at 268. In
// clusters it is 2 us: 89 % at 67 MB, 96 at 134 (H200).
template <int BYTES>
constexpr int kInFlight = BYTES == 16 ? 8 : 16;

// Rows for each thread at least: below that a block's end takes longer than its rows.
constexpr int kLeastRows = 4;

// The threads of a row of a strip, where a row has so many accesses.
constexpr int lanes_of(int64_t accesses) {
  int lanes = 1;
  while (lanes < kMostLanes && lanes < accesses) lanes *= 2;
  return lanes;
}

// The same of a strip whose groups are a cluster: of 256 bytes where 512 would leave fewer than 32 strips, for eight groups
// of those are to be two blocks an SM.
constexpr int lanes_in_clusters(int64_t accesses) {
  const int lanes = lanes_of(accesses);
  return lanes > 16 && accesses < 32 * kMostLanes ? 16 : lanes;
}

constexpr int64_t groups_of(int64_t rows, int64_t accesses, int64_t lanes, int64_t sms) {
  const int64_t strips = (accesses - 1) / lanes + 1;
  const int64_t least = kThreads / lanes * kLeastRows, full = sms * kBlocksOfAnSM / strips;
  const int64_t worth = (rows - 1) / least + 1, groups = full < worth ? full : worth;
  return groups < 1 ? 1 : groups;
}

// Into how many groups the rows are parted on a card of so many SMs: as many as give every SM its blocks at once, no more,
// for each writes its sums. With clusters, a cluster's where those are all that is worth while, or come to 1.5 blocks an SM.
// kernel.toml states the same, with clusters.
constexpr int64_t fast_groups(int64_t rows, int64_t accesses, int64_t sms, bool clusters) {
  const int64_t lanes = lanes_in_clusters(accesses), strips = (accesses - 1) / lanes + 1;
  const int64_t groups = groups_of(rows, accesses, lanes, sms);
  if (clusters && (groups <= kMostBlocksOfACluster || strips * kMostBlocksOfACluster * 2 >= sms * 3)) {
    return groups >= 8 ? 8 : groups >= 4 ? 4 : groups >= 2 ? 2 : 1;
  }
  return groups_of(rows, accesses, lanes_of(accesses), sms);
}

}  // namespace column_sum
