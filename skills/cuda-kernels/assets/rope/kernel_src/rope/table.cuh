// A thread's part of a row of the cos or sin table, of the tensors' type or fp32; and packs a word at a time.
#pragma once
#include "pack.cuh"

namespace rope {
using namespace common;

// Elements in a word of a pack.
template <typename T, int N>
constexpr int kInWord = N == 1 ? 1 : 4 / static_cast<int>(sizeof(T));

// The w-th word of a pack, as a pack of its own.
template <typename T, int N>
__device__ __forceinline__ Pack<T, kInWord<T, N>> word_of(const Pack<T, N>& pack, int w) {
  Pack<T, kInWord<T, N>> word;
  word.word[0] = pack.word[w];
  return word;
}

// N elements of a table: as many as a pack of the tensors has.
template <typename TABLE, int N>
struct Table {
  static constexpr int kBytes = N * static_cast<int>(sizeof(TABLE));
  static constexpr int kEach = kBytes == 32 ? 4 : kBytes == 8 ? 1 : N;  // elements an access
  Pack<TABLE, kEach> part[N / kEach];

  // The i-th N elements from p on.
  __device__ __forceinline__ void load_from(const TABLE* p, int64_t i) {
#pragma unroll
    for (int j = 0; j < N / kEach; ++j) load<kCached>(part[j], p, i * (N / kEach) + j);
  }

  // The w-th E elements.
  template <int E>
  __device__ __forceinline__ void unpack_word(float (&f)[E], int w) const {
    if constexpr (sizeof(TABLE) == 4) {
#pragma unroll
      for (int j = 0; j < E; ++j) f[j] = to_float<TABLE>(part[(w * E + j) / kEach].word[(w * E + j) % kEach]);
    } else {
      unpack(word_of(part[0], w), f);
    }
  }
};

// The same where the type is known at run time only: for kernels whose speed does not hang on the tables.
template <typename T, int N>
struct EitherTable {
  float value[N];

  __device__ __forceinline__ void load_from(const void* table, int64_t row, int64_t i, bool f32) {
    if (sizeof(T) == 4 || f32) {
      keep<F32>(table, row, i);
    } else {
      keep<T>(table, row, i);
    }
  }
  template <int E>
  __device__ __forceinline__ void unpack_word(float (&f)[E], int w) const {
#pragma unroll
    for (int j = 0; j < E; ++j) f[j] = value[w * E + j];
  }

 private:
  template <typename TABLE>
  __device__ __forceinline__ void keep(const void* table, int64_t row, int64_t i) {
    constexpr int E = kInWord<T, N>;
    Table<TABLE, N> part;
    part.load_from(static_cast<const TABLE*>(table) + row, i);
#pragma unroll
    for (int w = 0; w < N / E; ++w) {
      float f[E];
      part.unpack_word(f, w);
#pragma unroll
      for (int j = 0; j < E; ++j) value[w * E + j] = f[j];
    }
  }
};

}  // namespace rope
