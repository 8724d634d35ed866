// out[batch, column, row] = x[batch, row, column].
//
// The floor is memory, read once and written once, and the trouble is that what lies side by side in one does not in the
// other. So a block takes a tile, reads it by rows of x, turns it over in shared memory and writes it by rows of out, both
// in whole lines of 128 bytes.
#pragma once
#include "arguments.h"
#include "pack.cuh"
#include "tuning.h"

// Which tile is this block's, and where its matrices begin.
template <typename T>
struct Tile {
  int64_t row, column;  // in tiles
  const T* x;
  T* out;

  __device__ explicit Tile(const TransposeArguments& a) {
    const uint32_t above = quotient(blockIdx.x, a.by_panel_width), panel_of_all = quotient(above, a.by_tile_rows);
    const uint32_t batch = quotient(panel_of_all, a.by_panels), panel = panel_of_all - batch * a.panels;
    row = above - panel_of_all * a.tile_rows;
    column = panel * a.panel_width + (blockIdx.x - above * a.panel_width);
    x = static_cast<const T*>(a.x) + batch * a.x_batch_stride;
    out = static_cast<T*>(a.out) + batch * a.out_batch_stride;
  }
};

// N packs of N elements, one above the other, become their columns. Words change their registers, which costs nothing;
// 16-bit elements change places within two words, one instruction a word.
template <typename T, int N>
__device__ __forceinline__ void transpose_block(Pack<T, N> (&pack)[N]) {
  Pack<T, N> turned[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      if constexpr (sizeof(T) == 4) {
        turned[k].word[m] = pack[m].word[k];
      } else {
        const uint32_t upper = pack[2 * m].word[k / 2], lower = pack[2 * m + 1].word[k / 2];
        turned[k].word[m] = __byte_perm(upper, lower, k % 2 == 0 ? 0x5410 : 0x7632);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) pack[k] = turned[k];
}

// What an SM is to hold at once at least. Left alone, the compiler takes 64 registers a thread and, below sm_90, spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kThreadsOfAnSm = 768;
#else
constexpr int kThreadsOfAnSm = 1024;
#endif

// A tile of DOWN x ACROSS blocks of N x N elements, a thread a block; N elements are 16 bytes. All sizes, strides and
// addresses are whole packs.
//
// Shared memory holds rows of out: ACROSS * N rows of DOWN packs. Eight threads that access it together, which are all
// that 32 banks serve with 16 bytes each, write the same pack of rows that lie N apart, and read eight packs of one row.
// With packs in their places the eight writes would meet in the same banks; the exclusive or puts them into eight.
template <typename T, int DOWN, int ACROSS>
__global__ void __launch_bounds__(DOWN * ACROSS, kThreadsOfAnSm / (DOWN * ACROSS)) transpose_blocks(const TransposeArguments a) {
  constexpr int N = 16 / sizeof(T);
  static_assert(DOWN % 8 == 0 && ACROSS % 8 == 0, "whole lines are read and written");
  __shared__ uint4 turned[ACROSS * N * DOWN];
  const Tile<T> tile(a);

  const int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  const int64_t row = (tile.row * DOWN + down) * N, column = tile.column * ACROSS + across;  // in elements, in packs
  if (row < a.rows && column < a.columns / N) {
    const T* x = tile.x + row * a.x_stride;
    Pack<T, N> pack[N];
#pragma unroll
    for (int k = 0; k < N; ++k, x += a.x_stride) load<kCached>(pack[k], x, column);
    transpose_block(pack);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const uint32_t(&w)[4] = pack[k].word;
      turned[(across * N + k) * DOWN + (down ^ across % 8)] = make_uint4(w[0], w[1], w[2], w[3]);
    }
  }
  __syncthreads();

  const int place = threadIdx.x % DOWN, first = threadIdx.x / DOWN;
  const int64_t out_row = tile.column * (ACROSS * N) + first, out_column = tile.row * DOWN + place;
  T* out = tile.out + out_row * a.out_stride;
#pragma unroll
  for (int four = 0; four < N; four += 4) {
    Pack<T, N> pack[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int i = first + (four + k) * ACROSS;
      const uint4 v = turned[i * DOWN + (place ^ i / N % 8)];
      pack[k] = {{v.x, v.y, v.z, v.w}};
    }
#pragma unroll
    for (int k = 0; k < 4; ++k, out += ACROSS * a.out_stride) {
      const bool inside = out_row + (four + k) * ACROSS < a.columns && out_column < a.rows / N;
      if (inside) store(out, out_column, pack[k]);
    }
  }
}

// The same by single elements, for all that is no whole pack: odd sizes and strides, addresses anywhere. A warp accesses
// 32 elements that lie side by side. The padding of a word puts those of a column into different banks. What a tile has
// beyond the edges is anything, and stays in the block.
template <typename T>
__global__ void __launch_bounds__(kElementThreads) transpose_elements(const TransposeArguments a) {
  constexpr int kSide = kElementTile, kRows = kElementThreads / kSide, kEach = kSide / kRows;
  __shared__ T turned[kSide][kSide + 4 / sizeof(T)];
  const Tile<T> tile(a);
  const int side = threadIdx.x % kSide, first = threadIdx.x / kSide;

  const int64_t row = tile.row * kSide, column = tile.column * kSide;
  Pack<T, 1> pack[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {  // all are on their way before the first is waited for
    const int64_t at = row + first + k * kRows;
    if (at < a.rows && column + side < a.columns) load<kCached>(pack[k], tile.x + at * a.x_stride, column + side);
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) turned[side][first + k * kRows].bits = pack[k].word[0];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kEach; ++k) pack[k].word[0] = turned[first + k * kRows][side].bits;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int64_t at = column + first + k * kRows;
    if (at < a.columns && row + side < a.rows) store(tile.out + at * a.out_stride, row + side, pack[k]);
  }
}
