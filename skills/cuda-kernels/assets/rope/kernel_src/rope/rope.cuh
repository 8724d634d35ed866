// Rotary position embedding of the halves of a head (transformers' rotate_half), alone or after an RMSNorm per head:
//
//   out[i]        = x[i]        * cos[i] - x[half + i] * sin[i]
//   out[half + i] = x[half + i] * cos[i] + x[i]        * sin[i]
//
// The floor is memory: q and k are read once and written once. A thread holds pack i of both halves of a head, so the
// rotation needs no other thread, and the norm's sum only the few lanes of the head. A head has as many lanes as slots, a
// warp as many whole heads as it has lanes for. Every head reads its token's row of the tables anew, from L1 all but once.
#pragma once
#include "arch.h"
#include "arguments.h"
#include "dependent.cuh"
#include "pack.cuh"
#include "table.cuh"
#include "tuning.h"

namespace rope {
using namespace common;

// Blocks of kMostThreads that an SM shall hold, of so many registers a thread: this bounds them.
constexpr int blocks_an_sm(int registers) {
  return (65536 / registers < kSmThreads ? 65536 / registers : kSmThreads) / kMostThreads;
}

// fp32 tables beside 16-bit elements take eight registers more.
template <typename T, typename TABLE>
constexpr int kMoreRegisters = sizeof(TABLE) > sizeof(T) ? 8 : 0;

// The first pack of slot i. Where i < half, there is a second one a.across behind.
__device__ __forceinline__ int first_of(const RopeArguments& a, int i) { return i + (i < a.half ? a.first : a.half); }

// What a thread works on.
struct Place {
  int slot;   // the first, of the row's lanes
  int which;  // 0: q's heads, 1: k's
  int head, token;
  bool here;  // not behind the last row of the warp or the last token
};
template <int HEADS>
__device__ __forceinline__ Place place_of(const RopeArguments& a) {
  const uint32_t lane = threadIdx.x % 32, of_warp = lane * a.lane_part >> 16;
  const uint32_t row = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * a.rows_in_warp + of_warp;
  const uint32_t run = row >> a.token_bits, tokens = a.by_rows_of_token.quotient(run);
  Place place;
  place.slot = lane - of_warp * a.lanes;
  const int head = (run - tokens * a.rows_of_token) * HEADS;
  place.which = head >= a.q_heads;
  place.head = head - place.which * a.q_heads;
  place.token = (tokens << a.token_bits) + (row - (run << a.token_bits));
  place.here = of_warp < a.rows_in_warp && place.token < a.tokens;
  return place;
}

// Sum over the lanes of a head, which are neighbours in a warp; each of them gets it. All threads of the block call it.
__device__ __forceinline__ float head_sum(float v, int slot, int lanes) {
  if ((lanes & (lanes - 1)) == 0) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
      if (d < lanes) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    if (d >= lanes) continue;
    const float other = __shfl_down_sync(0xffffffffu, v, d);
    if (slot + d < lanes) v += other;
  }
  return __shfl_sync(0xffffffffu, v, threadIdx.x - slot);
}

template <typename T, int N>
__device__ __forceinline__ float add_squares(const Pack<T, N>& pack, float total) {
  float f[N];
  unpack(pack, f);
#pragma unroll
  for (int j = 0; j < N; ++j) total = fmaf(f[j], f[j], total);
  return total;
}

// f becomes f * scale * (weight + weight_offset); scale is 1 / rms.
template <typename T, int E>
__device__ __forceinline__ void normalize(float (&f)[E], const Pack<T, E>& weight, bool weighted, float scale,
                                          const RopeArguments& a) {
#pragma unroll
  for (int j = 0; j < E; ++j) f[j] *= scale;
  if (sizeof(T) == 2 && a.round_first != 0) {
    Pack<T, E> rounded;
    repack(rounded, f);
    unpack(rounded, f);
  }
  if (weighted) {
    float w[E];
    unpack(weight, w);
#pragma unroll
    for (int j = 0; j < E; ++j) f[j] *= w[j] + a.weight_offset;
  }
}

template <int E>
__device__ __forceinline__ void rotate(float (&x)[E], float (&y)[E], const float (&c)[E], const float (&s)[E]) {
#pragma unroll
  for (int j = 0; j < E; ++j) {
    const float u = fmaf(x[j], c[j], -(y[j] * s[j]));
    y[j] = fmaf(y[j], c[j], x[j] * s[j]);
    x[j] = u;
  }
}

// The weights of a slot, and the norm's scale.
template <typename T, int N>
struct Norm {
  Pack<T, N> first, second;
  bool weighted;
  float scale;

  __device__ __forceinline__ void load_weight(const void* weight, const RopeArguments& a, int slot) {
    weighted = weight != nullptr;
    if (weighted) {
      const T* at = static_cast<const T*>(weight) + first_of(a, slot) * N;
      load<kCached>(first, at, 0);
      if (slot < a.half) load<kCached>(second, at, a.across);
    }
  }
};

// The packs of a slot become what is stored, a word of each after the other: few values are fp32 at a time.
template <bool NORM, typename T, int N, typename TABLE>
__device__ __forceinline__ void finish(Pack<T, N>& first, Pack<T, N>& second, bool rotated, const Norm<T, N>& norm,
                                       const TABLE& cos, const TABLE& sin, const RopeArguments& a) {
  constexpr int E = kInWord<T, N>;
  if (rotated) {
#pragma unroll
    for (int w = 0; w < N / E; ++w) {
      Pack<T, E> one = word_of(first, w), two = word_of(second, w);
      float x[E], y[E], c[E], s[E];
      unpack(one, x);
      unpack(two, y);
      if constexpr (NORM) {
        normalize(x, word_of(norm.first, w), norm.weighted, norm.scale, a);
        normalize(y, word_of(norm.second, w), norm.weighted, norm.scale, a);
      }
      cos.unpack_word(c, w);
      sin.unpack_word(s, w);
      rotate(x, y, c, s);
      repack(one, x);
      repack(two, y);
      first.word[w] = one.word[0];
      second.word[w] = two.word[0];
    }
  } else if constexpr (NORM) {  // without it the bits are copied
#pragma unroll
    for (int w = 0; w < N / E; ++w) {
      Pack<T, E> one = word_of(first, w);
      float x[E];
      unpack(one, x);
      normalize(x, word_of(norm.first, w), norm.weighted, norm.scale, a);
      repack(one, x);
      first.word[w] = one.word[0];
    }
  }
}

// Where a pack of a head is, or of a token's row of a table, for rope_heads: packs before it.
__device__ __forceinline__ uint64_t packs_before(uint32_t pack, uint32_t token, uint32_t token_stride, uint32_t batch_stride) {
  return pack + uint64_t{token} * token_stride + uint64_t{blockIdx.z} * batch_stride;
}
template <typename T, int N>
__device__ __forceinline__ const T* in_pack(const HeadsInPacks& of, uint32_t token, uint32_t head, uint32_t pack) {
  return static_cast<const T*>(of.in) +
         (packs_before(pack, token, of.in_token, of.in_batch) + uint64_t{head} * of.in_head) * N;
}
template <typename T, int N>
__device__ __forceinline__ T* out_pack(const HeadsInPacks& of, uint32_t token, uint32_t head, uint32_t pack) {
  return static_cast<T*>(of.out) +
         (packs_before(pack, token, of.out_token, of.out_batch) + uint64_t{head} * of.out_head) * N;
}

// The same in elements, for rope_heads_twice.
__device__ __forceinline__ int64_t table_row(const RopeArguments& a, int token) {
  return blockIdx.z * a.table_batch + token * a.table_token;
}
template <typename T>
__device__ __forceinline__ const T* in_row(const Heads& of, int token, int head) {
  return static_cast<const T*>(of.in) + blockIdx.z * of.in_batch + token * of.in_token +
         head * of.in_head;
}
template <typename T>
__device__ __forceinline__ T* out_row(const Heads& of, int token, int head) {
  return static_cast<T*>(of.out) + blockIdx.z * of.out_batch + token * of.out_token + head * of.out_head;
}

// Code for sm_100 spills in 32 registers, and in 40 with fp32 tables.
template <int HEADS, bool NORM>
constexpr int kMoreOfBlackwell = HEADS == 1 && !NORM && kUsed<100, 119> ? 8 : 0;

// Heads of up to 32 slots, HEADS neighbours a thread: all in flight at once, with one row of the tables and one of the
// weights. Where HEADS is not 1, the numbers of q's and of k's heads are multiples of it.
template <typename T, typename TABLE, int N, int HEADS, bool NORM, int REGISTERS>
__global__ void __launch_bounds__(kMostThreads, blocks_an_sm(REGISTERS + kMoreRegisters<T, TABLE> + kMoreOfBlackwell<HEADS, NORM>))
    rope_heads(const __grid_constant__ RopeArguments a) {
  wait_for_previous();
  // The layouts with several heads are for few tokens, of which no line need stay in L1: 2 % less time there, 2 % more
  // with many (measured on an H100).
  constexpr Access kLoad = HEADS == 1 ? kCached : kStream;
  // One head leaves registers for the weights, whose latency then hides behind the reduction: 2 % less time with many
  // tokens. Beside two heads they cost 6 % more.
  constexpr bool kEarly = HEADS == 1;
  const auto [slot, which, head, token, here] = place_of<HEADS>(a);
  const bool rotated = slot < a.half;
  const bool split_first = slot == a.split_first, split_second = slot == a.split_second;
  const HeadsInPacks& of = a.packs_of[which];

  // What comes from memory first: the tables and the weights are in a cache for all heads but the first.
  Pack<T, N> first[HEADS], second[HEADS];
  Table<TABLE, N> cos, sin;
  Norm<T, N> norm;
  if (here) {
    const T* in = in_pack<T, N>(of, token, head, first_of(a, slot));
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      load<kLoad>(first[h], in + int64_t{h} * of.in_head * N, 0);
      if (rotated) load<kLoad>(second[h], in + int64_t{h} * of.in_head * N, a.across);
    }
    if (rotated) {
      constexpr int kEach = 16 / sizeof(TABLE);
      const int64_t at = packs_before(slot * (N / kEach), token, a.table_token_packs, a.table_batch_packs) * kEach;
      cos.load_from(static_cast<const TABLE*>(a.cos) + at, 0);
      sin.load_from(static_cast<const TABLE*>(a.sin) + at, 0);
    }
    if constexpr (NORM && kEarly) norm.load_weight(of.weight, a, slot);
  }

  float scale[HEADS];
  if constexpr (NORM) {
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      float squares = 0.0f;
      if (here) {
        squares = add_squares(first[h], squares);
        if (rotated) squares = add_squares(second[h], squares);
      }
      scale[h] = rsqrtf(head_sum(squares, slot, a.lanes) * a.inverse_head_dim + a.eps);
      keep_packed(first[h]);
      keep_packed(second[h]);
    }
  }
  if (!here) return;
  T* out = out_pack<T, N>(of, token, head, first_of(a, slot));
  asm volatile("" : "+l"(out));  // not before the loads, which would wait for its strides; once, not in both branches
  if constexpr (NORM && !kEarly) norm.load_weight(of.weight, a, slot);
  if constexpr (!NORM) {
    if (!rotated) {  // the bits are copied
#pragma unroll
      for (int h = 0; h < HEADS; ++h) store(out + int64_t{h} * of.out_head * N, 0, first[h]);
      return;
    }
  }
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    if constexpr (NORM) norm.scale = scale[h];
    finish<NORM>(first[h], second[h], rotated, norm, cos, sin, a);
    T* at = out + int64_t{h} * of.out_head * N;
    if (!split_first) store(at, 0, first[h]);
    if (rotated && !split_second) store(at, a.across, second[h]);
    if (split_first || split_second) {  // one store of the two lanes: a whole sector
#pragma unroll
      for (int w = 0; w < 4; ++w) first[h].word[w] = split_first ? first[h].word[w] : second[h].word[w];
      store(at, split_first ? 0 : a.across, first[h]);
    }
  }
}

// Heads of any size, a slot after the other; for the norm they are read a second time, from L1.
template <typename T, int N, bool NORM>
__global__ void __launch_bounds__(kMostThreads, blocks_an_sm(64))
    rope_heads_twice(const __grid_constant__ RopeArguments a) {
  wait_for_previous();
  const auto [slot, which, head, token, here] = place_of<1>(a);
  const Heads& of = a.heads_of[which];
  const T* in = in_row<T>(of, token, head);
  T* out = out_row<T>(of, token, head);
  const int64_t table = table_row(a, token);

  Norm<T, N> norm;
  if constexpr (NORM) {
    float squares = 0.0f;
    for (int i = slot; here && i < a.packs; i += a.lanes) {
      Pack<T, N> x;
      load<kCached>(x, in, i);
      squares = add_squares(x, squares);
    }
    // In place too: no lane has its sum, and stores, before all lanes of the head have read.
    norm.scale = rsqrtf(head_sum(squares, slot, a.lanes) * a.inverse_head_dim + a.eps);
  }
  for (int i = slot; here && i < a.slots; i += a.lanes) {
    const bool rotated = i < a.half;
    const int at = first_of(a, i);
    Pack<T, N> first, second;
    load<kCached>(first, in, at);
    if (rotated) load<kCached>(second, in, at + a.across);
    if constexpr (NORM) norm.load_weight(of.weight, a, i);
    EitherTable<T, N> cos, sin;
    if (rotated) {
      cos.load_from(a.cos, table, i, a.tables_f32 != 0);
      sin.load_from(a.sin, table, i, a.tables_f32 != 0);
    }
    finish<NORM>(first, second, rotated, norm, cos, sin, a);
    store(out, at, first);
    if (rotated) store(out, at + a.across, second);
  }
}

}  // namespace rope
