// Rows that begin or end between multiples of 16 bytes: where their packs lie, and the elements beside those.
#pragma once
#include "gradient.cuh"

namespace rmsnorm_backward {
using namespace common;

// Where the packs of a row lie. Before and behind them are up to 14 elements.
template <typename T>
struct Ends {
  static constexpr int N = 16 / sizeof(T);
  int head;    // elements before the first multiple of 16 bytes
  int packs;
  int beside;  // elements that are in no pack

  __device__ __forceinline__ Ends(const T* row, int width) {
    const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T)) % N;
    head = min(static_cast<int>((N - shift) % N), width), packs = (width - head) / N, beside = width - packs * N;
  }
};

constexpr int kNoThread = 1 << 30;  // has none of them

// The one of these elements that a thread has, where it has one: a row has no fewer threads than elements beside its packs.
template <typename T>
struct Beside {
  bool is_here = false;
  int at = 0;  // from the first pack on; negative before it
  Pack<T, 1> x, dy, next_x, next_dy, weight;
  float dw[1] = {0.0f};

  __device__ __forceinline__ void choose(const Ends<T>& ends, int thread) {
    is_here = thread < ends.beside;
    at = thread < ends.head ? thread - ends.head : thread - ends.head + ends.packs * Ends<T>::N;
  }
  __device__ __forceinline__ void load_row(const T* x_row, const T* dy_row) {
    load<kCached>(x, x_row, at);
    load<kCached>(dy, dy_row, at);
  }
  // Of the next row, while this one's are in use.
  __device__ __forceinline__ void load_next(const T* x_row, const T* dy_row) {
    load<kCached>(next_x, x_row, at);
    load<kCached>(next_dy, dy_row, at);
  }
  __device__ __forceinline__ void store_row(T* dx_row, float weight_offset, float scale, float mean) {
    gradient(x, dy, weight, weight_offset, scale, mean, dw);
    store(dx_row, at, x);
  }
};

// Where the sum of a column lies in shared memory. Lanes have columns N apart: one float of padding behind each N keeps them
// in different banks.
template <int N>
constexpr __host__ __device__ int slot_of(int column) {
  return N == 1 ? column : column + column / N;
}

}  // namespace rmsnorm_backward
