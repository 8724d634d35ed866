// Packs from any address on, by accesses of 4 bytes.
//
// The loads cover the pack's elements and no others, so that a pack at either end of a row needs no case of its own. Compared
// with two loads of 16 bytes and a shift by a number of elements (load_anywhere of unaligned.cuh) these are half of the
// instructions, and five requests to L1 where those are two.
#pragma once
#include "modulate.cuh"

namespace adaln {
using namespace common;

// OWN: of a row that may begin at the same place between multiples of 16 bytes as the row of x. Then one access takes all.
template <bool OWN = false, typename T, int N>
__device__ __forceinline__ void load_words(Pack<T, N>& pack, const T* at) {
  static_assert(Pack<T, N>::kBytes == 16, "four words");
  const uint32_t* words = reinterpret_cast<const uint32_t*>(at);
  if (OWN && reinterpret_cast<uintptr_t>(at) % 16 == 0) {
    load<kCached>(pack, at, 0);
  } else if (sizeof(T) == 2 && reinterpret_cast<uintptr_t>(at) % 4 != 0) {
    // The first and the last element have a word each of which the other half is not the pack's.
    const uint32_t first = at[0].bits, last = at[N - 1].bits;
    words = reinterpret_cast<const uint32_t*>(at + 1);
    const uint32_t w[3] = {words[0], words[1], words[2]};
    pack.word[0] = first | w[0] << 16;
    pack.word[1] = __funnelshift_r(w[0], w[1], 16);
    pack.word[2] = __funnelshift_r(w[1], w[2], 16);
    pack.word[3] = __funnelshift_r(w[2], last, 16);
  } else {
#pragma unroll
    for (int w = 0; w < 4; ++w) pack.word[w] = words[w];
  }
}
template <bool OWN = false, typename T>
__device__ __forceinline__ void load_words(Pack<T, 1>& pack, const T* at) {
  load<kCached>(pack, at, 0);
}

// What the loads of a pack bring, with OWN as above. It is joined where the pack is used, so that the loads of several packs are in
// flight at once.
template <typename T, int N>
struct Words {
  static_assert(Pack<T, N>::kBytes == 16, "four words");
  uint32_t word[sizeof(T) == 2 ? 5 : 4];

  __device__ __forceinline__ void fetch(const T* at) {
    if (reinterpret_cast<uintptr_t>(at) % 16 == 0) {
      Pack<T, N> pack;
      load<kCached>(pack, at, 0);
#pragma unroll
      for (int w = 0; w < 4; ++w) word[w] = pack.word[w];
    } else if (sizeof(T) == 2 && reinterpret_cast<uintptr_t>(at) % 4 != 0) {
      word[0] = at[0].bits;
#pragma unroll
      for (int w = 0; w < 3; ++w) word[1 + w] = reinterpret_cast<const uint32_t*>(at + 1)[w];
      word[sizeof(T) == 2 ? 4 : 0] = at[N - 1].bits;
    } else {
#pragma unroll
      for (int w = 0; w < 4; ++w) word[w] = reinterpret_cast<const uint32_t*>(at)[w];
    }
  }
  __device__ __forceinline__ void join(Pack<T, N>& pack, const T* at) const {
#pragma unroll
    for (int w = 0; w < 4; ++w) pack.word[w] = word[w];
    if (sizeof(T) == 4 || reinterpret_cast<uintptr_t>(at) % 4 == 0) return;
    pack.word[0] = word[0] | word[1] << 16;
#pragma unroll
    for (int w = 1; w < 4; ++w) pack.word[w] = __funnelshift_r(word[w], word[sizeof(T) == 2 ? w + 1 : 0], 16);
  }
};
template <typename T>
struct Words<T, 1> {
  Pack<T, 1> pack;
  __device__ __forceinline__ void fetch(const T* at) { load<kCached>(pack, at, 0); }
  __device__ __forceinline__ void join(Pack<T, 1>& to, const T*) const { to = pack; }
};

// Adds what a row, where there is one, has from an element on.
template <typename T, bool OWN = false, int N>
__device__ __forceinline__ void add_words(float (&f)[N], const void* row, int element) {
  if (row == nullptr) return;
  Pack<T, N> pack;
  load_words<OWN>(pack, static_cast<const T*>(row) + element);
  add_pack(f, pack);
}

// gate + gate_table, or 1 without a gate, from an element on.
template <bool OWN = false, typename T, int N>
__device__ __forceinline__ void gate_at(float (&factor)[N], const T* gate_row, int element, const Arguments& a) {
#pragma unroll
  for (int j = 0; j < N; ++j) factor[j] = 1.0f;
  if (a.gate == nullptr) return;
  Pack<T, N> gate;
  load_words<OWN>(gate, gate_row + element);
  unpack(gate, factor);
  add_words<T>(factor, a.gate_table, element);
}

// x becomes h + x * (gate + gate_table).
template <typename T, int N>
__device__ __forceinline__ void add_gated_at(Pack<T, N>& x, const Pack<T, N>& h, const T* gate_row, int element,
                                             const Arguments& a) {
  float factor[N];
  gate_at<true>(factor, gate_row, element, a);
  add_gated(x, h, factor);
}

// Prefetches into L2 the word that has an element of a row, where there is one.
template <typename T>
__device__ __forceinline__ void prefetch_at(const void* data, const T* row, int element) {
  if (data != nullptr)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(reinterpret_cast<uintptr_t>(row + element) & ~uintptr_t{3}));
}

// Of scale and shift, each with its table: factor = weight * (one + factor), addend += bias * (one + factor). 1 comes last: a
// tensor and its table may cancel each other.
template <typename T, int N>
__device__ __forceinline__ void affine_at(float (&factor)[N], float (&addend)[N], int element, const Arguments& a) {
#pragma unroll
  for (int j = 0; j < N; ++j) factor[j] += a.one;
  Pack<T, N> pack;
  if (a.bias != nullptr) {
    float bias[N];
    load_words(pack, static_cast<const T*>(a.bias) + element);
    unpack(pack, bias);
#pragma unroll
    for (int j = 0; j < N; ++j) addend[j] = fmaf(bias[j], factor[j], addend[j]);
  }
  if (a.weight != nullptr) {
    float weight[N];
    load_words(pack, static_cast<const T*>(a.weight) + element);
    unpack(pack, weight);
#pragma unroll
    for (int j = 0; j < N; ++j) factor[j] *= weight[j];
  }
}

// As combine: factor = weight * (one + scale + scale_table), addend = bias * (one + scale + scale_table) + shift + shift_table.
template <typename T, int N>
__device__ __forceinline__ void combine_at(float (&factor)[N], float (&addend)[N], const T* scale_row, const T* shift_row,
                                           int element, const Arguments& a) {
#pragma unroll
  for (int j = 0; j < N; ++j) factor[j] = 0.0f, addend[j] = 0.0f;
  Pack<T, N> pack;
  if (a.scale != nullptr) {
    load_words(pack, scale_row + element);
    unpack(pack, factor);
    add_words<T>(factor, a.scale_table, element);
  }
  if (a.shift != nullptr) {
    load_words(pack, shift_row + element);
    unpack(pack, addend);
    add_words<T>(addend, a.shift_table, element);
  }
  affine_at<T>(factor, addend, element, a);
}

}  // namespace adaln
