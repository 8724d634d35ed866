// The same for rows that are no whole number of 16 bytes: x, h and the outputs begin at the same place between multiples of 16
// bytes, the rows of modulation anywhere.
#pragma once
#include "adaln.cuh"
#include "unaligned.cuh"
#include "words.cuh"

namespace adaln {

// As modulate_from.
template <typename T, int N>
__device__ __forceinline__ void modulate_at(Pack<T, N>& x, const T* scale_row, const T* shift_row, float mean,
                                            float inverse, int element, const Arguments& a) {
  float f[N], g[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] = (f[j] - mean) * inverse, g[j] = 0.0f;
  if (a.weight != nullptr) {
    add_words<T>(g, a.weight, element);
#pragma unroll
    for (int j = 0; j < N; ++j) f[j] *= g[j];
  }
  add_words<T>(f, a.bias, element);
#pragma unroll
  for (int j = 0; j < N; ++j) g[j] = 0.0f;
  if (a.scale != nullptr) add_words<T, true>(g, scale_row, element);
  add_words<T>(g, a.scale_table, element);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] *= a.one + g[j], g[j] = 0.0f;
  if (a.shift != nullptr) add_words<T, true>(g, shift_row, element);
  add_words<T>(g, a.shift_table, element);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] += g[j];
  repack(x, f);
}

// What scale and shift, or their tables, have of a pack. Where there is no row, nothing is fetched.
template <typename T, int N>
struct ScaleAndShift {
  Words<T, N> scale, shift;

  __device__ __forceinline__ void fetch(const void* scale_row, const void* shift_row, int element) {
    if (scale_row != nullptr) scale.fetch(static_cast<const T*>(scale_row) + element);
    if (shift_row != nullptr) shift.fetch(static_cast<const T*>(shift_row) + element);
  }
  __device__ __forceinline__ void add_to(float (&factor)[N], float (&addend)[N], const void* scale_row, const void* shift_row,
                                         int element) const {
    Pack<T, N> pack;
    if (scale_row != nullptr) scale.join(pack, static_cast<const T*>(scale_row) + element), add_pack(factor, pack);
    if (shift_row != nullptr) shift.join(pack, static_cast<const T*>(shift_row) + element), add_pack(addend, pack);
  }
};

// Rows of fewer than 128 threads share a block. Else a block a row, of as many warps as it needs, up to TPR threads.
template <typename T, int TPR, int NV, bool GATED>
__global__ void __launch_bounds__(kBlockThreads<TPR>, TPR < 128 ? 5 : 1) adaln_unaligned(const Arguments a) {
  constexpr int N = 16 / sizeof(T), kRows = kBlockThreads<TPR> / TPR;
  static_assert(TPR >= 16, "the elements beside the packs are up to 14");
  __shared__ alignas(16) float scratch[32], scratch_of_squares[32];
  wait_for_previous();

  const int thread = kRows == 1 ? threadIdx.x : threadIdx.x % TPR, step = kRows == 1 ? blockDim.x : TPR;
  const uint32_t row = kRows == 1 ? blockIdx.x : blockIdx.x * kRows + threadIdx.x / TPR;
  const int width = row < a.rows ? static_cast<int>(a.width) : 0;
  const T* const x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const Share<T> own(x_row, width, thread);

  Pack<T, N> x[NV];
  Pack<T, 1> one;
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (v * step < own.left) load<kCached>(x[v], x_row + own.first, v * step);
  if (own.beside) load<kCached>(one, x_row, own.element);
  // The modulation is loaded where it is used, in few registers. Where every row has its own, it is in no cache before. Of wide
  // rows an SM has few, and their modulation is fetched before the sums: adaln 2 x 7013 4.2 us (5.9), 404 x 5260 with a
  // modulation a row 11.8 (12.9). Of narrower rows, fewer registers and more blocks are faster: 20000 x 1001 57 us (62). On 8.9 the
  // registers would spill.
  constexpr bool kWide = TPR * NV > 1024 && kUsed<90>, kEarly = !GATED && kWide;
  const T* const scale_row = modulation_row<T>(a.scale, a.scale_stride, row, a);
  const T* const shift_row = modulation_row<T>(a.shift, a.shift_stride, row, a);
  const T* const scales = a.scale != nullptr ? scale_row : nullptr;
  const T* const shifts = a.shift != nullptr ? shift_row : nullptr;
  ScaleAndShift<T, N> early[kEarly ? NV : 1], tables;
  ScaleAndShift<T, 1> one_early, one_tables;
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (v * step >= own.left) continue;
    const int element = own.first + v * step * N;
    if constexpr (kEarly) {
      early[v].fetch(scales, shifts, element);
      prefetch_at(a.scale_table, static_cast<const T*>(a.scale_table), element);
      prefetch_at(a.shift_table, static_cast<const T*>(a.shift_table), element);
    } else if (a.rows_per_modulation.quotient(1) == 1) {
      if (GATED) prefetch_at(a.gate, modulation_row<T>(a.gate, a.gate_stride, row, a), element);
      prefetch_at(a.scale, scale_row, element);
      prefetch_at(a.shift, shift_row, element);
    }
  }
  if (kEarly && own.beside) one_early.fetch(scales, shifts, own.element);
  // As in adaln_uniform what the SM takes next comes into L2 meanwhile. On Blackwell of gated rows alone, for want of registers.
  constexpr bool kPrefetch = kWide && (GATED || kUsed<90, 90>);
  const auto prefetch_next = [&] {
    if (!kPrefetch || threadIdx.x != 0 || row + a.sms >= a.rows || a.rows_per_modulation.quotient(1) != 1) return;
    const uint32_t bytes = a.width * sizeof(T);
    const int64_t ahead = a.sms;
    prefetch_row(x_row + ahead * a.x_stride, bytes);
    if constexpr (GATED) {
      prefetch_row(static_cast<const T*>(a.h) + (row + ahead) * a.h_stride, bytes);
    } else {
      if (a.scale != nullptr) prefetch_row(scale_row + ahead * a.scale_stride, bytes);
      if (a.shift != nullptr) prefetch_row(shift_row + ahead * a.shift_stride, bytes);
    }
  };
  if (!GATED) prefetch_next();
  if constexpr (GATED) {
    const T* const h_row = static_cast<const T*>(a.h) + row * a.h_stride;
    const T* const gate_row = modulation_row<T>(a.gate, a.gate_stride, row, a);
    T* const sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
    Pack<T, N> h[NV];
    Pack<T, 1> one_h;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < own.left) load<kCached>(h[v], h_row + own.first, v * step);
    if (own.beside) load<kCached>(one_h, h_row, own.element);
    prefetch_next();
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (v * step < own.left) {
        add_gated_at(x[v], h[v], gate_row, own.first + v * step * N, a);
        store(sum_row + own.first, v * step, x[v]);
        keep_packed(x[v]);
      }
    }
    if (own.beside) {
      add_gated_at(one, one_h, gate_row, own.element, a);
      store(sum_row, own.element, one);
    }
  }

  if (kEarly && own.left > 0) tables.fetch(a.scale_table, a.shift_table, own.first);
  if (kEarly && own.beside) one_tables.fetch(a.scale_table, a.shift_table, own.element);
  float mean = 0.0f;
  if (a.layer != 0) {
    float total = 0.0f;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < own.left) total = add_elements(x[v], total);
    if (own.beside) total = add_elements(one, total);
    mean = sum_of_row<TPR>(total, scratch) * a.inverse_width;
  }
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (v * step < own.left) squares = add_squares(x[v], mean, squares);
  if (own.beside) squares = add_squares(one, mean, squares);
  const float inverse = rsqrtf(sum_of_row<TPR>(squares, scratch_of_squares) * a.inverse_width + a.eps);
#pragma unroll
  for (int v = 0; v < NV; ++v) keep_packed(x[v]);

  T* const out_row = static_cast<T*>(a.out) + row * a.out_stride;
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (v * step < own.left) {
      const int element = own.first + v * step * N;
      if constexpr (kEarly) {
        float factor[N] = {}, addend[N] = {};
        early[v].add_to(factor, addend, scales, shifts, element);
        tables.add_to(factor, addend, a.scale_table, a.shift_table, element);
        if (v + 1 < NV && (v + 1) * step < own.left) tables.fetch(a.scale_table, a.shift_table, element + step * N);
        affine_at<T>(factor, addend, element, a);
        modulate(x[v], factor, addend, mean, inverse);
      } else {
        modulate_at(x[v], scale_row, shift_row, mean, inverse, element, a);
      }
      store(out_row + own.first, v * step, x[v]);
    }
  }
  if (own.beside) {
    if constexpr (kEarly) {
      float factor[1] = {}, addend[1] = {};
      one_early.add_to(factor, addend, scales, shifts, own.element);
      one_tables.add_to(factor, addend, a.scale_table, a.shift_table, own.element);
      affine_at<T>(factor, addend, own.element, a);
      modulate(one, factor, addend, mean, inverse);
    } else {
      modulate_at(one, scale_row, shift_row, mean, inverse, own.element, a);
    }
    store(out_row, own.element, one);
  }
}

}  // namespace adaln
