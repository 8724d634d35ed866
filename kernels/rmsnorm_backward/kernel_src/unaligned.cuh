// Generated from kernels/common/unaligned.cuh.
// Rows that are no whole number of 16 bytes, or begin between two multiples of 16, in accesses of 16 bytes even so.
#pragma once
#include "pack.cuh"

namespace common {

// What one of the threads of a row has of it: packs between multiples of 16 bytes, and at most one of the elements beside them,
// those before the first multiple and behind the last. They are up to 14, and a row has no fewer threads.
template <typename T>
struct Share {
  static constexpr int N = 16 / sizeof(T);
  int first;     // element of its first pack; the next one is `step` packs behind
  int left;      // packs from its first on
  bool beside;   // whether it has one of the elements beside them
  int element;   // which

  __device__ __forceinline__ Share(const T* row, int width, int thread) {
    const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T)) % N;
    const int head = min(static_cast<int>((N - shift) % N), width), packs = (width - head) / N;
    first = head + thread * N, left = packs - thread;
    beside = thread < width - packs * N;
    element = thread < head ? thread : thread + packs * N;
  }
};

// N elements from the `shift`th of two packs on.
template <typename T, int N>
__device__ __forceinline__ void join(Pack<T, N>& pack, const Pack<T, N>& low, const Pack<T, N>& high, uint32_t shift) {
  constexpr uint32_t kTwoWords = 8 / sizeof(T), kWord = 4 / sizeof(T);
  uint32_t w[8];
#pragma unroll
  for (int j = 0; j < 4; ++j) w[j] = low.word[j], w[4 + j] = high.word[j];
#pragma unroll
  for (int j = 0; j < 6; ++j) w[j] = (shift & kTwoWords) != 0 ? w[j + 2] : w[j];
#pragma unroll
  for (int j = 0; j < 5; ++j) w[j] = (shift & kWord) != 0 ? w[j + 1] : w[j];
#pragma unroll
  for (int j = 0; j < 4; ++j) pack.word[j] = sizeof(T) == 2 ? __funnelshift_r(w[j], w[j + 1], shift % 2 * 16) : w[j];
}

// A pack of a row of so many elements that begins anywhere, from an element on: of the two that it lies in.
template <typename T, int N>
__device__ __forceinline__ void load_anywhere(Pack<T, N>& pack, const T* row, int element, int width) {
  const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row + element) / sizeof(T)) % N;
  const int low_at = element - static_cast<int>(shift);
  if (shift == 0) {
    load<kCached>(pack, row + element, 0);
  } else if (low_at >= 0 && low_at + 2 * N <= width) {
    Pack<T, N> low, high;
    load<kCached>(low, row + low_at, 0);
    load<kCached>(high, row + low_at, 1);
    join(pack, low, high, shift);
  } else {  // what lies beside the row is not read
    constexpr int kInWord = 4 / static_cast<int>(sizeof(T));
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      pack.word[w] = 0;
#pragma unroll
      for (int j = 0; j < kInWord; ++j) pack.word[w] |= uint32_t{row[element + w * kInWord + j].bits} << (j * 16 % 32);
    }
  }
}
template <typename T>
__device__ __forceinline__ void load_anywhere(Pack<T, 1>& pack, const T* row, int element, int) {
  load<kCached>(pack, row, element);
}

}  // namespace common
