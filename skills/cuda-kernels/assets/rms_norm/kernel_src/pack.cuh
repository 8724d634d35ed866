// Packs: the bits that one access moves, their conversion to fp32 and back, and the accesses themselves.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "element.cuh"

namespace common {

// What a load asks of the caches. Neither is of the read-only kind (.nc): outputs may lie on inputs. Stores ask for
// nothing: a hint to leave the L2 first gained under 1 % and cost up to 5 % (measured on an H100).
enum Access : int {
  kCached,  // as the card does it
  kStream,  // leaves no line in L1
};

// N elements of type T in one register (2 or 4 bytes) or four (16 bytes). They stay packed between their first use
// and their last: fp32 copies of 16-bit elements would take twice the registers.
template <typename T, int N>
struct Pack {
  static constexpr int kBytes = N * static_cast<int>(sizeof(T));
  static_assert(kBytes == 2 || kBytes == 4 || kBytes == 16, "an access moves 2, 4 or 16 bytes");
  uint32_t word[kBytes < 4 ? 1 : kBytes / 4];
};

// The i-th pack from p on.
template <Access A, typename T, int N>
__device__ __forceinline__ void load(Pack<T, N>& pack, const T* p, int64_t i) {
  const T* at = p + i * N;
  if constexpr (Pack<T, N>::kBytes == 16 && A == kStream) {
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pack.word[0]), "=r"(pack.word[1]), "=r"(pack.word[2]), "=r"(pack.word[3])
                 : "l"(at)
                 : "memory");
  } else if constexpr (Pack<T, N>::kBytes == 16) {
    const uint4 v = *reinterpret_cast<const uint4*>(at);
    pack.word[0] = v.x, pack.word[1] = v.y, pack.word[2] = v.z, pack.word[3] = v.w;
  } else if constexpr (Pack<T, N>::kBytes == 4) {
    pack.word[0] = *reinterpret_cast<const uint32_t*>(at);
  } else {
    pack.word[0] = *reinterpret_cast<const uint16_t*>(at);
  }
}

template <typename T, int N>
__device__ __forceinline__ void store(T* p, int64_t i, const Pack<T, N>& pack) {
  T* at = p + i * N;
  if constexpr (Pack<T, N>::kBytes == 16) {
    // Written out: the compiler splits a uint4 whose words it knows from different branches.
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(pack.word[0]), "r"(pack.word[1]),
                 "r"(pack.word[2]), "r"(pack.word[3])
                 : "memory");
  } else if constexpr (Pack<T, N>::kBytes == 4) {
    *reinterpret_cast<uint32_t*>(at) = pack.word[0];
  } else {
    *reinterpret_cast<uint16_t*>(at) = static_cast<uint16_t>(pack.word[0]);
  }
}

template <typename T, int N>
__device__ __forceinline__ void unpack(const Pack<T, N>& pack, float (&f)[N]) {
  if constexpr (N == 1) {
    f[0] = to_float<T>(pack.word[0]);
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int j = 0; j < N; ++j) f[j] = to_float<T>(pack.word[j]);
  } else {
#pragma unroll
    for (int j = 0; j < N / 2; ++j) to_floats<T>(pack.word[j], f[2 * j], f[2 * j + 1]);
  }
}

// Rounds to nearest, ties to even.
template <typename T, int N>
__device__ __forceinline__ void repack(Pack<T, N>& pack, const float (&f)[N]) {
  if constexpr (N == 1) {
    pack.word[0] = to_bits<T>(f[0]);
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int j = 0; j < N; ++j) pack.word[j] = to_bits<T>(f[j]);
  } else {
#pragma unroll
    for (int j = 0; j < N / 2; ++j) pack.word[j] = to_two<T>(f[2 * j], f[2 * j + 1]);
  }
}

// Emits nothing. It makes the bits opaque, so that the compiler converts them again after the reduction and does not
// keep the fp32 values of their first use alive across it.
template <typename T, int N>
__device__ __forceinline__ void keep_packed(Pack<T, N>& pack) {
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (uint32_t& word : pack.word) asm volatile("" : "+r"(word));
  }
}

}  // namespace common
