// Packs: the bits that one access moves, their conversion to fp32 and back, and the accesses themselves.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "element.cuh"

// What an access asks of the caches.
enum Access : int {
  kCached = 0,      // as the card does it
  kStream = 1,      // read or written once: loads leave no line in L1, stores are the first to leave the L2
  kAsked = 3,       // stores: kStream or kCached, as the launch asks
  kEvictFirst = 2,  // loads and stores are the first to leave the L2 (from sm_80 on; below, as kStream)
};

// N elements of type T in one register (2 or 4 bytes) or four (16 bytes). They stay packed between their first use
// and their last: fp32 copies of 16-bit elements would take twice the registers.
template <typename T, int N>
struct Pack {
  static constexpr int kBytes = N * static_cast<int>(sizeof(T));
  static constexpr int kWords = kBytes < 4 ? 1 : kBytes / 4;
  static_assert(kBytes == 2 || kBytes == 4 || kBytes == 16, "an access moves 2, 4 or 16 bytes");
  uint32_t word[kWords];
};

__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

// The i-th pack from p on. No load is of the read-only kind (.nc): outputs may lie on inputs.
template <Access A, typename T, int N>
__device__ __forceinline__ void load(Pack<T, N>& pack, const T* p, int64_t i) {
  const T* at = p + i * N;
  if constexpr (Pack<T, N>::kBytes == 16) {
    uint32_t(&w)[4] = pack.word;
    if constexpr (A == kCached) {
      const uint4 v = *reinterpret_cast<const uint4*>(at);
      w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
#if __CUDA_ARCH__ >= 800
    } else if constexpr (A == kEvictFirst) {
      asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "l"(at), "l"(evict_first_policy())
                   : "memory");
#endif
    } else {
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "l"(at)
                   : "memory");
    }
  } else if constexpr (Pack<T, N>::kBytes == 4) {
    pack.word[0] = *reinterpret_cast<const uint32_t*>(at);
  } else {
    pack.word[0] = *reinterpret_cast<const uint16_t*>(at);
  }
}

template <Access A, typename T, int N>
__device__ __forceinline__ void store(T* p, int64_t i, const Pack<T, N>& pack, bool stream = false) {
  T* at = p + i * N;
  if constexpr (A == kAsked) {
    if (stream) {
      store<kStream>(p, i, pack);
    } else {
      store<kCached>(p, i, pack);
    }
  } else if constexpr (Pack<T, N>::kBytes == 16) {
    const uint32_t(&w)[4] = pack.word;
    if constexpr (A == kCached) {
      *reinterpret_cast<uint4*>(at) = make_uint4(w[0], w[1], w[2], w[3]);
#if __CUDA_ARCH__ >= 800
    } else if constexpr (A == kEvictFirst) {
      asm volatile("st.global.L1::no_allocate.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;"
                   :
                   : "l"(at), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(evict_first_policy())
                   : "memory");
#endif
    } else {
      __stcs(reinterpret_cast<uint4*>(at), make_uint4(w[0], w[1], w[2], w[3]));
    }
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
