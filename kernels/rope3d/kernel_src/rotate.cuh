// What the kernels share: where a token's cosines and sines stand, and the rotation of its pairs.
#pragma once
#include "arch.h"
#include "arguments.h"
#include "dependent.cuh"
#include "pack.cuh"
#include "reduce.cuh"

namespace rope3d {
using namespace common;

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
  const uint32_t line = a.by_size[2].quotient(token), frame = a.by_size[1].quotient(line);
  const uint32_t batch = a.by_size[0].quotient(frame);
  const uint32_t own = batch * a.table_stride;
  return {{own + a.axis_start[0] + (frame - batch * a.size[0]) * a.entries,
           own + a.axis_start[1] + (line - frame * a.size[1]) * a.entries,
           own + a.axis_start[2] + (token - line * a.size[2]) * a.entries}};
}

template <int P>
struct Rotation {
  float cos[P], sin[P];
};

// The cosines and sines of the P pairs from number i * P of the token on. Slot s belongs to axis s % 3 and entry s / 3,
// so neighbours are in different rows, and P pairs begin with any of the three.
template <int P>
__device__ __forceinline__ void load_rotation(Rotation<P>& rotation, const Place& place, int i, const RotaryArguments& a) {
  const uint32_t slot = static_cast<uint32_t>(i) * P + a.first_slot, entry = slot / 3, axis = slot - 3 * entry;
  const uint32_t f = place.first[0] + entry + (axis > 0);  // each axis' first entry from this slot on
  const uint32_t h = place.first[1] + entry + (axis > 1);
  const uint32_t w = place.first[2] + entry;
  const uint32_t at[3] = {axis == 0 ? f : axis == 1 ? h : w, axis == 0 ? h : axis == 1 ? w : f,
                          axis == 0 ? w : axis == 1 ? f : h};
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const float2 cos_sin = static_cast<const float2*>(a.table)[at[p % 3] + p / 3];
    rotation.cos[p] = cos_sin.x, rotation.sin[p] = cos_sin.y;
  }
}

template <int P>
__device__ __forceinline__ void rotate(float (&f)[2 * P], const Rotation<P>& rotation, float sin_sign) {
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const float x = f[2 * p], y = f[2 * p + 1], sin = rotation.sin[p] * sin_sign;
    f[2 * p] = x * rotation.cos[p] - y * sin;
    f[2 * p + 1] = y * rotation.cos[p] + x * sin;
  }
}

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

}  // namespace rope3d
