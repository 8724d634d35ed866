// The same for rows that have their modulation in common (sm_80 and above): a block works it out once, in fp32, keeps it
// in shared memory, and takes a.run rows for each of its places, one after another.
//
// What this saves is instructions. At 4 bytes an element an H100 issues some 38 of them an element in the memory's time;
// four rows of modulation loaded, converted and added up for every row are most of that, and the norm has the rest.
#pragma once
#include "adaln.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define ADALN_HAS_SHARED 1
#else
#define ADALN_HAS_SHARED 0
#endif

template <int TPR>
constexpr int kSharedThreads = TPR < 256 ? 256 : TPR;

// N floats of pack i. The first fours of all packs lie side by side, then the second ones: no two threads of a quarter
// warp meet in a bank.
template <int N>
__device__ __forceinline__ void put(float* plane, int packs, int i, const float (&f)[N]) {
#pragma unroll
  for (int j = 0; j < N; j += 4)
    reinterpret_cast<float4*>(plane)[j / 4 * packs + i] = make_float4(f[j], f[j + 1], f[j + 2], f[j + 3]);
}
template <int N>
__device__ __forceinline__ void get(const float* plane, int packs, int i, float (&f)[N]) {
#pragma unroll
  for (int j = 0; j < N; j += 4) {
    const float4 four = reinterpret_cast<const float4*>(plane)[j / 4 * packs + i];
    f[j] = four.x, f[j + 1] = four.y, f[j + 2] = four.z, f[j + 3] = four.w;
  }
}

// weight * (1 + scale + scale_table), and bias * (1 + scale + scale_table) + shift + shift_table.
template <typename T, int N>
__device__ __forceinline__ void combine(float (&factor)[N], float (&addend)[N], uint32_t modulation, int i,
                                        const Arguments& a) {
  float scale[N], bias[N];
#pragma unroll
  for (int j = 0; j < N; ++j) scale[j] = 1.0f, addend[j] = 0.0f, bias[j] = 0.0f;
  if (a.scale != nullptr) add_pack<T>(scale, static_cast<const T*>(a.scale) + modulation * a.scale_stride, i);
  add_pack<T>(scale, a.scale_table, i);
  if (a.shift != nullptr) add_pack<T>(addend, static_cast<const T*>(a.shift) + modulation * a.shift_stride, i);
  add_pack<T>(addend, a.shift_table, i);
  add_pack<T>(bias, a.bias, i);
#pragma unroll
  for (int j = 0; j < N; ++j) addend[j] = fmaf(bias[j], scale[j], addend[j]), factor[j] = scale[j];
  if (a.weight != nullptr) {
    float weight[N] = {};
    add_pack<T>(weight, a.weight, i);
#pragma unroll
    for (int j = 0; j < N; ++j) factor[j] *= weight[j];
  }
}

template <typename T, int N, int TPR, int NV, bool GATED>
__global__ void __launch_bounds__(kSharedThreads<TPR>, kMostThreads / 8 * (GATED || TPR > 128 ? 4 : 5) / kSharedThreads<TPR>)
    adaln_shared_rows(const Arguments a) {
#if ADALN_HAS_SHARED
  constexpr int kRows = kSharedThreads<TPR> / TPR;  // rows at once
  extern __shared__ float4 shared_modulation[];
  // Row by row in turn: the sums of a row may still be read when those of the next are written.
  __shared__ alignas(16) float scratch[2][32], scratch_of_squares[2][32];

  const int packs = static_cast<int>(a.width / N);
  float* factors = reinterpret_cast<float*>(shared_modulation);
  float* addends = factors + packs * N;
  float* gates = addends + packs * N;
  // Blocks are numbered modulation by modulation, so that none has rows of two.
  const uint32_t modulation = a.blocks_per_modulation.quotient(blockIdx.x);
  const uint32_t part = blockIdx.x - modulation * a.blocks_of_modulation;
  const uint32_t begin = modulation * a.rows_of_modulation + part * (kRows * a.run);
  const uint32_t end = min(min(begin + kRows * a.run, (modulation + 1) * a.rows_of_modulation), a.rows);
  const int first = kRows == 1 ? threadIdx.x : threadIdx.x % TPR;

  for (int i = threadIdx.x; i < packs; i += kSharedThreads<TPR>) {
    float factor[N], addend[N];
    combine<T>(factor, addend, modulation, i, a);
    put(factors, packs, i, factor);
    put(addends, packs, i, addend);
    if (GATED && a.gate != nullptr) {
      float gate[N] = {};
      add_pack<T>(gate, static_cast<const T*>(a.gate) + modulation * a.gate_stride, i);
      add_pack<T>(gate, a.gate_table, i);
      put(gates, packs, i, gate);
    }
  }
  __syncthreads();

#pragma unroll 1
  for (uint32_t turn = 0; begin + turn * kRows < end; ++turn) {
    const uint32_t row = begin + turn * kRows + (kRows == 1 ? 0 : threadIdx.x / TPR);
    const int left = row < end ? packs - first : 0;  // packs of the row from this thread's first on
    Pack<T, N> x[NV];
    {
      const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride + first * N;
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (v * TPR < left) load<kCached>(x[v], x_row, v * TPR);
    }
    if constexpr (GATED) {
      const T* h_row = static_cast<const T*>(a.h) + row * a.h_stride + first * N;
      T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride + first * N;
      Pack<T, N> h[NV];
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (v * TPR < left) load<kCached>(h[v], h_row, v * TPR);
#pragma unroll
      for (int v = 0; v < NV; ++v) {
        if (v * TPR < left) {
          float f[N], r[N];
          unpack(x[v], f);
          unpack(h[v], r);
          if (a.gate != nullptr) {
            float gate[N];
            get(gates, packs, first + v * TPR, gate);
#pragma unroll
            for (int j = 0; j < N; ++j) f[j] *= gate[j];
          }
#pragma unroll
          for (int j = 0; j < N; ++j) f[j] += r[j];
          repack(x[v], f);
          store(sum_row, v * TPR, x[v]);
          keep_packed(x[v]);
        }
      }
    }

    float mean = 0.0f;
    if (a.layer != 0) {
      float total = 0.0f;
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (v * TPR < left) total = add_elements(x[v], total);
      mean = row_sum<TPR>(total, scratch[turn % 2]) * a.inverse_width;
    }
    float squares = 0.0f;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * TPR < left) squares = add_squares(x[v], mean, squares);
    const float inverse = rsqrtf(row_sum<TPR>(squares, scratch_of_squares[turn % 2]) * a.inverse_width + a.eps);
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(x[v]);

    T* out_row = static_cast<T*>(a.out) + row * a.out_stride + first * N;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * TPR < left) {
        float f[N], factor[N], addend[N];
        get(factors, packs, first + v * TPR, factor);
        get(addends, packs, first + v * TPR, addend);
        unpack(x[v], f);
#pragma unroll
        for (int j = 0; j < N; ++j) f[j] = fmaf((f[j] - mean) * inverse, factor[j], addend[j]);
        repack(x[v], f);
        store(out_row, v * TPR, x[v]);
      }
    }
  }
#else
  __trap();
#endif
}
