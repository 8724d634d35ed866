// What the kernels share: where a token's cosines and sines stand, and the rotation of its pairs.
#pragma once
#include "arguments.h"
#include "pack.cuh"

// Whole pairs (elements 2i and 2i + 1): one access of E elements, or two of one.
template <typename T, int E>
struct Pairs {
  static constexpr int kAccesses = E == 1 ? 2 : 1, kCount = E == 1 ? 1 : E / 2;
  Pack<T, E> pack[kAccesses];
};

template <Access A, typename T, int E>
__device__ __forceinline__ void load_pairs(Pairs<T, E>& pairs, const void* row, int i) {
#pragma unroll
  for (int j = 0; j < Pairs<T, E>::kAccesses; ++j)
    load<A>(pairs.pack[j], static_cast<const T*>(row), static_cast<int64_t>(i) * Pairs<T, E>::kAccesses + j);
}

template <typename T, int E>
__device__ __forceinline__ void store_pairs(void* row, int i, const Pairs<T, E>& pairs) {
#pragma unroll
  for (int j = 0; j < Pairs<T, E>::kAccesses; ++j)
    store(static_cast<T*>(row), static_cast<int64_t>(i) * Pairs<T, E>::kAccesses + j, pairs.pack[j]);
}

template <typename T, int E, int N>
__device__ __forceinline__ void unpack_pairs(const Pairs<T, E>& pairs, float (&f)[N]) {
  if constexpr (E == 1) {
    f[0] = to_float<T>(pairs.pack[0].word[0]), f[1] = to_float<T>(pairs.pack[1].word[0]);
  } else {
    unpack(pairs.pack[0], f);
  }
}

template <typename T, int E, int N>
__device__ __forceinline__ void repack_pairs(Pairs<T, E>& pairs, const float (&f)[N]) {
  if constexpr (E == 1) {
    pairs.pack[0].word[0] = to_bits<T>(f[0]), pairs.pack[1].word[0] = to_bits<T>(f[1]);
  } else {
    repack(pairs.pack[0], f);
  }
}

template <typename T, int E>
__device__ __forceinline__ void keep_packed(Pairs<T, E>& pairs) {
#pragma unroll
  for (Pack<T, E>& pack : pairs.pack) keep_packed(pack);
}

// Where entry 0 of a token's frame, of its row and of its column stands in the table.
struct Place {
  uint32_t first[3];
};

__device__ __forceinline__ Place find_place(const RotaryArguments& a, uint32_t token) {
  const uint32_t line = quotient(token, a.width), frame = quotient(line, a.height), batch = quotient(frame, a.frames);
  const uint32_t own = batch * a.table_stride;
  return {{own + a.axis_start[0] + (frame - batch * a.frames.divisor) * a.entries,
           own + a.axis_start[1] + (line - frame * a.height.divisor) * a.entries,
           own + a.axis_start[2] + (token - line * a.width.divisor) * a.entries}};
}

template <int P>
struct Turns {
  float cos[P], sin[P];
};

// The cosines and sines of the P pairs from number i * P of the token on. Slot s belongs to axis s % 3 and entry s / 3,
// so neighbours are in different rows, and P pairs begin with any of the three.
template <int P>
__device__ __forceinline__ void load_turns(Turns<P>& turns, const Place& place, int i, const RotaryArguments& a) {
  const uint32_t slot = static_cast<uint32_t>(i) * P + a.first_slot, entry = slot / 3, axis = slot - 3 * entry;
  const uint32_t f = place.first[0] + entry + (axis > 0);  // each axis' first entry from this slot on
  const uint32_t h = place.first[1] + entry + (axis > 1);
  const uint32_t w = place.first[2] + entry;
  const uint32_t at[3] = {axis == 0 ? f : axis == 1 ? h : w, axis == 0 ? h : axis == 1 ? w : f,
                          axis == 0 ? w : axis == 1 ? f : h};
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const float2 turn = static_cast<const float2*>(a.table)[at[p % 3] + p / 3];
    turns.cos[p] = turn.x, turns.sin[p] = turn.y;
  }
}

template <int P>
__device__ __forceinline__ void rotate(float (&f)[2 * P], const Turns<P>& turns, float sin_sign) {
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const float x = f[2 * p], y = f[2 * p + 1], sin = turns.sin[p] * sin_sign;
    f[2 * p] = x * turns.cos[p] - y * sin;
    f[2 * p + 1] = y * turns.cos[p] + x * sin;
  }
}

// Tokens of fewer than 128 threads share a block.
template <int TPT>
constexpr int kBlockThreads = TPT < 128 ? 128 : TPT;

// The token of a thread, and which of the token's threads it is. Where a block has one token, both are written without
// threadIdx for the token, so that the compiler computes all that follows from it once a warp.
template <int TPT>
__device__ __forceinline__ uint32_t find_token() {
  if constexpr (TPT >= 128) return blockIdx.x;
  return blockIdx.x * (kBlockThreads<TPT> / TPT) + threadIdx.x / TPT;
}
template <int TPT>
__device__ __forceinline__ int find_thread() {
  return TPT >= 128 ? threadIdx.x : threadIdx.x % TPT;
}

// Whether the code being compiled uses a layout of these architectures. Where it does not, the kernel is a trap: its
// symbol must exist, but its machine code would only cost compile time.
#ifdef __CUDA_ARCH__
template <int FIRST, int LAST>
constexpr bool kUsed = __CUDA_ARCH__ >= FIRST * 10 && __CUDA_ARCH__ <= LAST * 10 + 9;
#else
template <int FIRST, int LAST>
constexpr bool kUsed = true;
#endif
