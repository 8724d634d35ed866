// out[batch, column, row] = x[batch, row, column].
//
// The floor is memory, read once and written once, and the trouble is that what lies side by side in one does not in the
// other. So a block takes a tile, reads it by rows of x, transposes it in shared memory and writes it by rows of out, both
// in whole lines of 128 bytes.
#pragma once
#include <type_traits>

#include "arguments.h"
#include "pack.cuh"
#include "tuning.h"

namespace transpose {
using namespace common;

// Which tile is this block's, and where its matrices begin.
template <typename T>
struct Tile {
  int64_t row, column;  // in tiles
  const T* x;
  T* out;

  __device__ explicit Tile(const TransposeArguments& a) {
    const uint32_t above = a.by_panel_width.quotient(blockIdx.x), panel_of_all = a.by_tile_rows.quotient(above);
    const uint32_t batch = a.by_panels.quotient(panel_of_all), panel = panel_of_all - batch * a.panels;
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
  Pack<T, N> column[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      if constexpr (sizeof(T) == 4) {
        column[k].word[m] = pack[m].word[k];
      } else {
        const uint32_t upper = pack[2 * m].word[k / 2], lower = pack[2 * m + 1].word[k / 2];
        column[k].word[m] = __byte_perm(upper, lower, k % 2 == 0 ? 0x5410 : 0x7632);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) pack[k] = column[k];
}

// What an SM is to hold at once at least. Left alone, the compiler takes 64 registers a thread and, but for sm_90, spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
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
  __shared__ uint4 transposed[ACROSS * N * DOWN];
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
      transposed[(across * N + k) * DOWN + (down ^ across % 8)] = make_uint4(w[0], w[1], w[2], w[3]);
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
      const uint4 v = transposed[i * DOWN + (place ^ i / N % 8)];
      pack[k] = {{v.x, v.y, v.z, v.w}};
    }
#pragma unroll
    for (int k = 0; k < 4; ++k, out += ACROSS * a.out_stride) {
      const bool inside = out_row + (four + k) * ACROSS < a.columns && out_column < a.rows / N;
      if (inside) store(out, out_column, pack[k]);
    }
  }
}

// The bits of an element of shared memory: `address` and what `high` has without its last four bits and `low` has in
// those. Written out: the compiler would take the sum apart, eight instructions an element for two.
template <typename T>
__device__ __forceinline__ uint32_t load_shared(uint32_t address, uint32_t high, uint32_t low) {
  uint32_t bits, more;
  asm("lop3.b32 %0, %1, %2, 15, 0xd8;" : "=r"(more) : "r"(high), "r"(low));
  if constexpr (sizeof(T) == 4) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(address + more) : "memory");
  } else {
    asm volatile("{\n\t.reg .u16 h;\n\tld.shared.u16 h, [%1];\n\tcvt.u32.u16 %0, h;\n\t}"
                 : "=r"(bits)
                 : "r"(address + more)
                 : "memory");
  }
  return bits;
}

// Blocks an SM, all that its threads leave room for: much of a block is waiting.
constexpr int kUnalignedBlocks = kSmThreads / kUnalignedThreads;

// The same for all that is no whole pack: odd sizes and strides, addresses anywhere. Its accesses are of 16 bytes even so.
//
// Rows of out begin anywhere in a sector, the 32 bytes that memory moves. So a block's piece of each begins at the last
// sector before the tile's edge, and pieces of neighbouring blocks share none. For that it reads up to a sector of rows
// more. Rows of x are read from the last aligned address on, one pack more than the tile is wide, and lie in shared memory
// as they came, each with a shift of its own. Packs of out are put together from there, an element an access; a pack of
// padding behind every N rows puts those that lie N apart, eight of which are read at once, into different banks.
//
// What lies between rows of x is read, too. Before the tensor's first element and behind its last nothing is: packs that
// begin or end there are read by elements. What a tile has beyond the edges is anything, and stays in the block.
template <typename T>
__global__ void __launch_bounds__(kUnalignedThreads, kUnalignedBlocks) transpose_unaligned(const TransposeArguments a) {
  constexpr int kSize = sizeof(T), N = 16 / kSize, kSector = 32 / kSize;
  constexpr int kColumns = kUnalignedPacks * N, kPacks = kUnalignedPacks + 1;  // of a row of the tile
  constexpr int kRows = kUnalignedRows + kSector - 1, kAtOnce = kUnalignedRowsAtOnce, kEach = (kRows - 1) / kAtOnce + 1;
  constexpr int kPitch = kPacks * 16;  // bytes, without the padding
  static_assert(kAtOnce % N == 0 && kUnalignedThreads % 32 == 0, "threads keep their places");
  static_assert(kUnalignedRows % (8 * N) == 0, "a warp writes eight packs side by side, of four rows");
  __shared__ uint4 packs[kRows * kPacks + (kRows - 1) / N];
  const Tile<T> tile(a);
  const int64_t row = tile.row * kUnalignedRows - (kSector - 1), column = tile.column * kColumns;  // the tile's first
  const int first_row = row < 0 ? static_cast<int>(-row) : 0;                                      // of those that there are
  const int end_row = a.rows - row < kRows ? static_cast<int>(a.rows - row) : kRows;
  const int end_column = a.columns - column < kColumns ? static_cast<int>(a.columns - column) : kColumns;
  const T* const x = tile.x + row * a.x_stride + column;
  const uint32_t x_low = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(x));
  const uint32_t x_step = static_cast<uint32_t>(a.x_stride) * kSize;

  const auto read = [&](auto interior) {
    constexpr bool kInterior = decltype(interior)::value;
    const int place = threadIdx.x % kPacks, first = threadIdx.x / kPacks;
    const char* from = reinterpret_cast<const char*>(x + first * a.x_stride) + place * 16;
    uint4* const to = &packs[first * kPacks + first / N + place];
    Pack<T, N> pack[kEach];
    bool inside[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k, from += kAtOnce * kSize * a.x_stride) {
      const int i = first + k * kAtOnce, shift = static_cast<int>(reinterpret_cast<uintptr_t>(from) % 16);
      inside[k] = i >= first_row && i < end_row && place * 16 - shift < end_column * kSize;
      const T* const at = reinterpret_cast<const T*>(from - shift);
      if (inside[k] && !kInterior && (at < a.x || at + N > a.x_end)) {
        inside[k] = false;
        T* const element = reinterpret_cast<T*>(to + k * (kAtOnce * kPacks + kAtOnce / N));
#pragma unroll
        for (int j = 0; j < N; ++j)
          if (at + j >= a.x && at + j < a.x_end) element[j] = at[j];
      }
      if (inside[k]) load<kCached>(pack[k], at, 0);
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const uint32_t(&w)[4] = pack[k].word;
      if (inside[k]) to[k * (kAtOnce * kPacks + kAtOnce / N)] = make_uint4(w[0], w[1], w[2], w[3]);
    }
  };
  // Whether no pack of the tile can begin before the tensor or end behind it.
  const int64_t before = x + first_row * a.x_stride - static_cast<const T*>(a.x);
  const int64_t behind = static_cast<const T*>(a.x_end) - (x + (end_row - 1) * a.x_stride + end_column);
  if (before >= N && behind >= N) {
    read(std::true_type());
  } else {
    read(std::false_type());
  }
  __syncthreads();

  constexpr int kPieces = kUnalignedRows / (8 * N), kWarps = 8;
  constexpr int kColumnsAtOnce = kWarps / kPieces * 4;
  static_assert(kWarps % kPieces == 0 && kColumns % kColumnsAtOnce == 0 && kWarps * 32 <= kUnalignedThreads);
  const int warp = threadIdx.x / 32;
  if (warp >= kWarps) return;
  const int first_column = warp / kPieces * 4 + threadIdx.x % 32 / 8, place = warp % kPieces * 8 + threadIdx.x % 8;
  T* out = tile.out + (column + first_column) * a.out_stride + row;
#pragma unroll
  for (int k = 0; k < kColumns / kColumnsAtOnce; ++k, out += kColumnsAtOnce * a.out_stride) {
    const int c = first_column + k * kColumnsAtOnce;
    const int into = static_cast<int>(reinterpret_cast<uintptr_t>(out) / kSize % kSector);
    const int first = (kSector - into) % kSector + place * N;  // row of the tile
    if (c >= end_column || first + N <= first_row || first >= end_row) continue;
    uint32_t from = static_cast<uint32_t>(__cvta_generic_to_shared(packs)) + first * kPitch + c * kSize;
    uint32_t padding = first * kSize, shift = x_low + first * x_step;
    asm("" : "+r"(from), "+r"(padding), "+r"(shift));
    Pack<T, N> pack;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const uint32_t bits = load_shared<T>(from, padding, shift);
      if constexpr (kSize == 4) {
        pack.word[j] = bits;
      } else {
        pack.word[j / 2] = j % 2 == 0 ? bits : __byte_perm(pack.word[j / 2], bits, 0x5410);
      }
      from += kPitch, padding += kSize, shift += x_step;
    }
    if (first >= first_row && first + N <= end_row) {
      store(out + first, 0, pack);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const Pack<T, 1> one = {{kSize == 4 ? pack.word[j % 4] : pack.word[j / 2 % 4] >> 16 * (j % 2)}};
        if (first + j >= first_row && first + j < end_row) store(out, first + j, one);
      }
    }
  }
}

}  // namespace transpose
