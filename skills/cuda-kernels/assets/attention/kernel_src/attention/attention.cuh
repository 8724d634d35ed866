// Attention, forward: o = softmax(scale * q k^T) v, with nothing of the size of q k^T in memory.
//
// A block takes 128 queries of one head and goes over the keys in tiles, each of its four warps for 32 queries of its
// own. K and V have one tile each in shared memory: while one is multiplied, the next of the other is on its way.
// With two groups of four warps, the first takes every other tile of keys and the second the rest, for the same queries,
// in shared memory of its own.
#pragma once
#include <cuda_runtime.h>

#include "arch.h"
#include "arguments.h"
#include "element.cuh"
#include "fast_math.cuh"
#include "tensor_core.cuh"
#include "tile.h"

namespace attention {
using namespace common;

// Where a 16-byte chunk of a tile's row is in shared memory. Rows are 128 or 256 bytes, so that the same chunk of eight
// rows would lie in the same banks, and ldmatrix asks for just that: chunks change their places within the row by its
// number, and every eight rows are in eight different groups of four banks.
template <int kDim>
__device__ __forceinline__ uint32_t place_of(int row, int chunk) {
  return static_cast<uint32_t>(row * (kDim * 2) + ((chunk ^ (row & 7)) << 4));
}

// A thread copies the same chunk of every kRowsAtOnce-th row. That is a multiple of 8, so that it goes to the same
// place in each of them.
template <int kDim>
constexpr int kRowsAtOnce = kThreads / (kDim / 8);

template <int kDim>
__device__ __forceinline__ const uint16_t* own_chunk(const uint16_t* rows, int stride) {
  const int row = threadIdx.x / (kDim / 8), chunk = threadIdx.x % (kDim / 8);
  return rows + int64_t{row} * stride + chunk * 8;
}

// Starts to copy rows of a tensor into a tile; `own`: this thread's chunk of the first. Of the rows from `valid` on
// there are zeros: a key that is not there has the probability 0, and 0 times what happens to lie there could be NaN.
template <int kDim, int kRows>
__device__ __forceinline__ void copy_tile(uint32_t tile, const uint16_t* own, const Rows& tensor, int valid) {
  const int first = threadIdx.x / (kDim / 8), chunk = threadIdx.x % (kDim / 8);
  const uint32_t to = tile + place_of<kDim>(first, chunk);
#pragma unroll
  for (int i = 0; i < kRows / kRowsAtOnce<kDim>; ++i) {
    const int row = i * kRowsAtOnce<kDim>;
    const bool there = first + row < valid;
    copy_async(to + row * kDim * 2, there ? own + int64_t{row} * tensor.token_stride : tensor.data, there);
  }
}

// Of the output's rows of a 16 x 8 fragment a thread has two, and a warp has two such fragments one below the other:
// four rows a thread, and four threads a row, which are side by side in the warp.
constexpr int kFragments = kWarpQueries / 16, kThreadRows = 2 * kFragments;

__device__ __forceinline__ float largest_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float sum_of_row(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// The softmax of a row of which not all scores are there yet. What is summed is exp2(scale_log2 * score - shift), of
// which any shift would do in exact arithmetic: it cancels in the quotient. In fp32 it keeps the largest near 1.
// No score yet is a number below all others and not -inf: -inf of a masked score less -inf would be NaN.
constexpr float kNoScore = -3.0e38f;
constexpr float kHeadroom = 8.0f;  // f16 ends at 2^16
constexpr float kLn2 = 0.693147181f;

struct RunningRow {
  float shift = kNoScore;
  float sum = 0.0f;  // over this thread's columns
};

// What a block works on.
struct Work {
  int64_t batch;
  unsigned head;
  int first_query;
  // The head's first token in a tensor of which so many heads in a row share one.
  __device__ __forceinline__ uint16_t* head_of(const Rows& rows, int sharing = 1) const {
    return static_cast<uint16_t*>(rows.data) + batch * rows.batch_stride + head / sharing * rows.head_stride;
  }
};

// Blocks begin in the order of their numbers. With a causal mask the last queries see the most keys: those of all heads
// of a set go first, and what is left for its end is short.
__device__ __forceinline__ Work work_of_block(const AttentionArguments& a) {
  const unsigned number = block_number(), set_blocks = a.set_heads * a.query_tiles;
  const unsigned first_head = number / set_blocks * a.set_heads, in_set = number % set_blocks;
  const unsigned set_heads = min(a.set_heads, a.all_heads - first_head), head = first_head + in_set % set_heads;
  const int tile = a.query_tiles - 1 - in_set / set_heads;
  return {head / a.heads, head % a.heads, tile * kQueries};
}

// The thread's group, asked anew at each use: kept through the loop, what follows from it is a register more.
template <int kGroups>
__device__ __forceinline__ int group_number() {
  return kGroups == 1 ? 0 : group_of_thread();
}

// Waits for the threads of the group.
template <int kGroups>
__device__ __forceinline__ void sync_group() {
  if (kGroups == 1) {
    __syncthreads();
  } else {
    sync_some(1 + group_number<kGroups>(), kThreads);
  }
}

// Where the group's tile of K is; that of V follows.
template <int kDim, int kGroups>
__device__ __forceinline__ uint32_t own_keys(uint32_t q_tile) {
  return q_tile + Tile<kDim>::kQueryBytes + group_number<kGroups>() * 2 * Tile<kDim>::kKeyBytes;
}

// The second group hands over what it has of each row: floats of shared memory that are kThreads apart, from `to` on.
template <int kDim>
__device__ __forceinline__ void hand_over(float* to, const float (&o)[kFragments][kDim / 8][4],
                                          const RunningRow (&rows)[kThreadRows]) {
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    *to = rows[r].shift, to += kThreads;
    *to = rows[r].sum, to += kThreads;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i, to += kThreads) *to = o[r / 2][n][r % 2 * 2 + i];
  }
}

// The first adds that to its own.
template <int kDim>
__device__ __forceinline__ void take_over(const float* from, float (&o)[kFragments][kDim / 8][4],
                                          RunningRow (&rows)[kThreadRows]) {
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const float shift = fmaxf(rows[r].shift, *from), own = exp2_fast(rows[r].shift - shift);
    const float other = exp2_fast(*from - shift);
    from += kThreads;
    rows[r].shift = shift, rows[r].sum = fmaf(rows[r].sum, own, *from * other), from += kThreads;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i, from += kThreads) {
        float& x = o[r / 2][n][r % 2 * 2 + i];
        x = fmaf(x, own, *from * other);
      }
  }
}

// Blackwell, and two groups: which rows' places are worked out at each step of the scores. All at once, ahead of the
// copies, they are more than there are registers for.
template <int kDim>
constexpr bool kQueriesAnew = kDim == 128 && kUsed<100>;
template <int kDim, int kGroups>
constexpr bool kKeysAnew = kDim == 128 ? kUsed<100, 119> : kGroups > 1 || kUsed<100>;

template <typename T, int kDim, int kGroups>
__global__ void __launch_bounds__(kGroups * kThreads, Tile<kDim>::kBlocks / kGroups)
    attention_forward(const __grid_constant__ AttentionArguments a) {
  if constexpr (kGroups > 1 && !kUsed<kOldest, kLastOfTwo>) {
    __trap();
    return;
  }
  using Tile = Tile<kDim>;
  constexpr int kKeys = Tile::kKeys, kStep = kGroups * kKeys, kRowBytes = Tile::kRowBytes;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t q_tile = shared_address(shared), k_tile = own_keys<kDim, kGroups>(q_tile);
  const uint32_t v_tile = k_tile + Tile::kKeyBytes;

  const Work work = work_of_block(a);
  const int first_query = work.first_query, queries = min(kQueries, a.tokens_q - first_query);
  // The keys that the block's last query sees, which are also all that any of its queries sees.
  const int keys = min(a.tokens_k, first_query + queries + a.diagonal);

  const int group = group_number<kGroups>();
  int first_key = group * kKeys;

  const uint16_t* k = own_chunk<kDim>(work.head_of(a.k, a.heads_per_kv_head), a.k.token_stride);
  const uint16_t* v = own_chunk<kDim>(work.head_of(a.v, a.heads_per_kv_head), a.v.token_stride);
  k += int64_t{first_key} * a.k.token_stride, v += int64_t{first_key} * a.v.token_stride;
  const uint16_t* q = own_chunk<kDim>(work.head_of(a.q) + int64_t{first_query} * a.q.token_stride, a.q.token_stride);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Of the elements that mma gives a thread: the first row and column.
  const int row_in_warp = lane / 4, column_in_fragment = 2 * (lane % 4);

  // What a lane tells ldmatrix, for fragments that begin in row 0 and chunk 0 of a tile. Further chunks are reached by
  // an exclusive or, since chunks have changed places, and further rows by an addition, in steps of 16.
  // Q and V: matrices 0 and 1 below each other, 2 and 3 beside them.
  const uint32_t below_first = place_of<kDim>(lane % 16, lane / 16);
  // K: matrices 0 and 1 beside each other, 2 and 3 below them.
  const uint32_t beside_first = place_of<kDim>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
  const uint32_t q_rows = q_tile + warp * kWarpQueries * kRowBytes + below_first;
  const uint32_t k_rows = k_tile + beside_first;

  float o[kFragments][kDim / 8][4] = {};
  RunningRow rows[kThreadRows];

  if (group == 0) copy_tile<kDim, kQueries>(q_tile, q, a.q, queries);
  if (first_key < keys) copy_tile<kDim, kKeys>(k_tile, k, a.k, keys - first_key);
  if (kGroups > 1) {
    wait_for_copies();
    __syncthreads();  // Q is there for both groups
  }

  for (; first_key < keys; first_key += kStep) {
    wait_for_copies();
    sync_group<kGroups>();  // this K is there, and nobody needs the last V any more
    copy_tile<kDim, kKeys>(own_keys<kDim, kGroups>(q_tile) + Tile::kKeyBytes, v, a.v, keys - first_key);
    v += int64_t{kStep} * a.v.token_stride;

    // Scores: s = q k^T. The 16 x 8 fragments of k^T are rows of K as they lie.
    float s[kFragments][kKeys / 8][4] = {};
#pragma unroll
    for (int d = 0; d < kDim / 16; ++d) {
      uint32_t left[kFragments][4];
      const uint32_t q_here = kQueriesAnew<kDim> ? rematerialize(q_rows) : q_rows;
      const uint32_t k_here = kKeysAnew<kDim, kGroups> ? rematerialize(k_rows) : k_rows;
#pragma unroll
      for (int f = 0; f < kFragments; ++f) load_matrices(left[f], (q_here ^ (d * 32)) + f * 16 * kRowBytes);
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        uint32_t b[4];
        load_matrices(b, (k_here ^ (d * 32)) + n * 16 * kRowBytes);
#pragma unroll
        for (int f = 0; f < kFragments; ++f) {
          multiply_add<T>(s[f][2 * n], left[f], b[0], b[1]);
          multiply_add<T>(s[f][2 * n + 1], left[f], b[2], b[3]);
        }
      }
    }
    wait_for_copies();
    sync_group<kGroups>();  // this V is there, and nobody needs this K any more
    k += int64_t{kStep} * a.k.token_stride;
    if (first_key + kStep < keys) {
      copy_tile<kDim, kKeys>(own_keys<kDim, kGroups>(q_tile), k, a.k, keys - first_key - kStep);
    }

    // The mask, where the tile goes past the keys that the block's first query sees.
    const int first_row = rematerialize(first_query);
    if (first_key + kKeys > min(a.tokens_k, first_row + 1 + a.diagonal)) {
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r) {
        const int query = first_row + warp * kWarpQueries + row_in_warp + r * 8;
        const int seen = min(a.tokens_k, query + 1 + a.diagonal) - first_key - column_in_fragment;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (n * 8 + i >= seen) s[r / 2][n][r % 2 * 2 + i] = -INFINITY;
      }
    }

    // A row moves its shift, and scales what it has summed, when an exponential would pass 2^8: after a few tiles
    // hardly ever. The quotient is as exact as with the true maximum, for which all of o would be multiplied each time.
    bool passed = false;
    float largest[kThreadRows];
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      largest[r] = s[r / 2][0][r % 2 * 2];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) largest[r] = fmaxf(largest[r], s[r / 2][n][r % 2 * 2 + i]);
      passed = passed || fmaf(largest[r], a.scale_log2, -rows[r].shift) > kHeadroom;
    }
    if (__any_sync(0xffffffffu, passed)) {
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r) {
        const float shift = fmaxf(rows[r].shift, largest_of_row(largest[r]) * a.scale_log2);
        const float factor = exp2_fast(rows[r].shift - shift);
        rows[r].shift = shift, rows[r].sum *= factor;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) o[r / 2][n][r % 2 * 2] *= factor, o[r / 2][n][r % 2 * 2 + 1] *= factor;
      }
    }

    // Probabilities but for their divisor, 16 keys at a time, rounded to T, and o += p v. Two fragments of scores side
    // by side are, element for element, one fragment of A. Where V's rows are is asked anew, which is a register more.
    const int here = lane_number();
    const uint32_t v_rows = v_tile + place_of<kDim>(here % 16, here / 16);
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      uint32_t p[kFragments][4];
#pragma unroll
      for (int f = 0; f < kFragments; ++f)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          RunningRow& row = rows[2 * f + i % 2];
          const float(&two)[4] = s[f][2 * n + i / 2];
          const float left = exp2_fast(fmaf(two[i % 2 * 2], a.scale_log2, -row.shift));
          const float right = exp2_fast(fmaf(two[i % 2 * 2 + 1], a.scale_log2, -row.shift));
          row.sum += left + right;
          p[f][i] = to_two<T>(left, right);
        }
#pragma unroll
      for (int d = 0; d < kDim / 16; ++d) {
        uint32_t b[4];
        load_transposed(b, (v_rows ^ (d * 32)) + n * 16 * kRowBytes);
#pragma unroll
        for (int f = 0; f < kFragments; ++f) {
          multiply_add<T>(o[f][2 * d], p[f], b[0], b[1]);
          multiply_add<T>(o[f][2 * d + 1], p[f], b[2], b[3]);
        }
      }
    }
  }

  // Asked anew: what is not kept through the loop leaves it a register more.
  const Work writing = work_of_block(a);
  // Where there was no key, the copies of Q are still on their way to where o goes.
  wait_for_copies();
  __syncthreads();
  if (kGroups > 1) {
    float* const handed_over = reinterpret_cast<float*>(shared) + threadIdx.x;
    const bool second = group_number<kGroups>() > 0;
    if (second) hand_over<kDim>(handed_over, o, rows);
    __syncthreads();
    if (second) return;
    take_over<kDim>(handed_over, o, rows);
    sync_group<kGroups>();  // o is staged where that was
  }
  // o takes the place of the warp's own queries, so that it leaves in 16-byte stores.
  unsigned char* const staged = shared + warp * kWarpQueries * kRowBytes;
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const int row = row_in_warp + r * 8, query = writing.first_query + warp * kWarpQueries + row;
    const float sum = sum_of_row(rows[r].sum);
    const float inverse = sum == 0.0f ? 0.0f : __fdividef(1.0f, sum);  // a query that sees no key gives 0
    if (a.lse != nullptr && lane % 4 == 0 && query < a.tokens_q) {
      const float lse = sum == 0.0f ? -INFINITY : rows[r].shift * kLn2 + logf(sum);
      a.lse[(writing.batch * a.heads + writing.head) * a.tokens_q + query] = lse;
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const float* pair = &o[r / 2][n][r % 2 * 2];
      *reinterpret_cast<uint32_t*>(staged + place_of<kDim>(row, n) + column_in_fragment * 2) =
          to_two<T>(pair[0] * inverse, pair[1] * inverse);
    }
  }
  __syncwarp();
  constexpr int kChunks = kDim / 8, kRowsAWarp = 32 / kChunks;
  const int chunk = lane_number() % kChunks, first = lane_number() / kChunks;
  uint16_t* const out = writing.head_of(a.o) + chunk * 8;
#pragma unroll
  for (int i = 0; i < kWarpQueries / kRowsAWarp; ++i) {
    const int row = first + i * kRowsAWarp, query = writing.first_query + warp * kWarpQueries + row;
    if (query < a.tokens_q) {
      *reinterpret_cast<uint4*>(out + int64_t{query} * a.o.token_stride) =
          *reinterpret_cast<const uint4*>(staged + place_of<kDim>(row, chunk));
    }
  }
}

}  // namespace attention
