// out = gelu(layer_norm(x, weight, bias, eps)), a row at a time, in fp32 with one rounding at the end.
//
// The floor is memory: x is read once, out is written once, weight and bias come from the caches. So rows stay in
// registers, packed, from load to store. The variance is the mean of squared deviations from the mean, of the
// registers: no cancellation. out may be x: each element is read before it is written, by one thread.
#pragma once
#include "arguments.h"
#include "gelu.cuh"
#include "pack.cuh"

// Sums over the block, one for each of its rows; every thread gets them. Each call has a scratch of its own: there is no
// second barrier that would let one be written again.
template <int THREADS, int ROWS>
__device__ __forceinline__ void block_sums(float (&v)[ROWS], float (&scratch)[ROWS][THREADS / 32]) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v[r] += __shfl_xor_sync(0xffffffffu, v[r], d);
    if (threadIdx.x % 32 == 0) scratch[r][threadIdx.x / 32] = v[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    v[r] = 0.0f;
    if constexpr (THREADS % 128 == 0) {
#pragma unroll
      for (int w = 0; w < THREADS / 32; w += 4) {
        const float4 s = *reinterpret_cast<const float4*>(scratch[r] + w);
        v[r] += (s.x + s.y) + (s.z + s.w);
      }
    } else {
#pragma unroll
      for (int w = 0; w < THREADS / 32; ++w) v[r] += scratch[r][w];
    }
  }
}

template <typename T, int N>
__device__ __forceinline__ float add_elements(const Pack<T, N>& x, float total) {
  float f[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) total += f[j];
  return total;
}

template <typename T, int N>
__device__ __forceinline__ float add_squares(const Pack<T, N>& x, float mean, float total) {
  float f[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) total = fmaf(f[j] - mean, f[j] - mean, total);
  return total;
}

// A pack of weight and bias. Whether there are any is the same for a whole launch, so the branches are uniform.
template <typename T, int N>
struct Affine {
  Pack<T, N> weight, bias;

  __device__ __forceinline__ void fetch(const Arguments& a, int64_t i) {
    if (a.weight != nullptr) load<kCached>(weight, static_cast<const T*>(a.weight), i);
    if (a.bias != nullptr) load<kCached>(bias, static_cast<const T*>(a.bias), i);
  }
  __device__ __forceinline__ void get(const Arguments& a, float (&w)[N], float (&b)[N]) const {
#pragma unroll
    for (int j = 0; j < N; ++j) w[j] = 1.0f, b[j] = 0.0f;
    if (a.weight != nullptr) unpack(weight, w);
    if (a.bias != nullptr) unpack(bias, b);
  }
};

// Whether (x - mean) / deviation may be one instruction, x / deviation - mean / deviation: its error is 2^-24 of the mean.
// Where that is much beside the deviation, the 8 bits of a bf16 have left nothing of the row's values, either.
template <typename T>
constexpr bool kFewBits = false;
template <>
inline constexpr bool kFewBits<BF16> = true;

template <bool TANH, typename T, int N>
__device__ __forceinline__ void finish(Pack<T, N>& x, float mean, float inverse, const float (&w)[N],
                                       const float (&b)[N]) {
  const float shift = -mean * inverse;
  float f[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float normal = kFewBits<T> ? fmaf(f[j], inverse, shift) : (f[j] - mean) * inverse;
    f[j] = gelu<T, TANH>(fmaf(normal, w[j], b[j]));
  }
  repack(x, f);
}

// ROWS rows a block of THREADS threads, each with NV packs of 16 bytes of every row.
template <typename T, int THREADS, int NV, int ROWS, int BLOCKS, bool TANH>
__global__ void __launch_bounds__(THREADS, BLOCKS) layer_norm_gelu_rows(const Arguments a) {
  constexpr int N = 16 / static_cast<int>(sizeof(T));
  constexpr int kAhead = NV == 2 ? 2 : 1;  // packs of weight and bias on their way
  __shared__ alignas(16) float scratch[ROWS][THREADS / 32], scratch_of_squares[ROWS][THREADS / 32];

  const int64_t begin = static_cast<int64_t>(blockIdx.x) * ROWS;
  const int rows = a.rows - begin < ROWS ? static_cast<int>(a.rows - begin) : ROWS;
  const int first = threadIdx.x, left = static_cast<int>(a.width / N) - first;  // packs from this thread's first on

  Pack<T, N> x[ROWS][NV];
  const T* x_row = static_cast<const T*>(a.x) + begin * a.x_stride + first * N;
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (r < rows && v * THREADS < left) load<kCached>(x[r][v], x_row + r * a.x_stride, v * THREADS);
  Affine<T, N> affine[kAhead];
#pragma unroll
  for (int v = 0; v < kAhead; ++v)
    if (v * THREADS < left) affine[v].fetch(a, first + v * THREADS);

  float mean[ROWS] = {}, inverse[ROWS] = {};
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (r < rows && v * THREADS < left) mean[r] = add_elements(x[r][v], mean[r]);
  block_sums<THREADS>(mean, scratch);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    mean[r] *= a.inverse_width;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      keep_packed(x[r][v]);
      if (r < rows && v * THREADS < left) inverse[r] = add_squares(x[r][v], mean[r], inverse[r]);
    }
  }
  block_sums<THREADS>(inverse, scratch_of_squares);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    inverse[r] = rsqrtf(inverse[r] * a.inverse_width + a.eps);
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(x[r][v]);
  }

  T* out_row = static_cast<T*>(a.out) + begin * a.out_stride + first * N;
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (v * THREADS < left) {
      float w[N], b[N];
      affine[v % kAhead].get(a, w, b);
      if ((v + kAhead) * THREADS < left && v + kAhead < NV) affine[v % kAhead].fetch(a, first + (v + kAhead) * THREADS);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        if (r < rows) {
          finish<TANH>(x[r][v], mean[r], inverse[r], w, b);
          store(out_row + r * a.out_stride, v * THREADS, x[r][v]);
        }
      }
    }
  }
}

// Any row, by packs or by single elements, one a block: read three times, from the caches as far as it is still there.
template <typename T, int N, int THREADS, bool TANH>
__global__ void __launch_bounds__(THREADS) layer_norm_gelu_any(const Arguments a) {
  __shared__ alignas(16) float scratch[1][THREADS / 32], scratch_of_squares[1][THREADS / 32];
  const int64_t packs = a.width / N;
  const T* x_row = static_cast<const T*>(a.x) + blockIdx.x * a.x_stride;
  T* out_row = static_cast<T*>(a.out) + blockIdx.x * a.out_stride;
  Pack<T, N> x;

  float mean[1] = {}, inverse[1] = {};
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < packs; i += THREADS) {
    load<kCached>(x, x_row, i);
    mean[0] = add_elements(x, mean[0]);
  }
  block_sums<THREADS>(mean, scratch);
  mean[0] *= a.inverse_width;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < packs; i += THREADS) {
    load<kCached>(x, x_row, i);
    inverse[0] = add_squares(x, mean[0], inverse[0]);
  }
  block_sums<THREADS>(inverse, scratch_of_squares);
  inverse[0] = rsqrtf(inverse[0] * a.inverse_width + a.eps);
#pragma unroll 1
  for (int64_t i = threadIdx.x; i < packs; i += THREADS) {
    Affine<T, N> affine;
    float w[N], b[N];
    load<kCached>(x, x_row, i);
    affine.fetch(a, i);
    affine.get(a, w, b);
    finish<TANH>(x, mean[0], inverse[0], w, b);
    store(out_row, i, x);
  }
}
