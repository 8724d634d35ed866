// The same for narrow rows with a scale and a shift alone, and nothing gated: layer_norm, and adaln without tables, weight and
// bias. Wider ones, and those with tables, are in adaln_uniform.cuh.
//
// Scale and shift are loaded with x and stay packed. In fp32 they would take so many registers that an SM would hold half as many
// rows at a time.
//
// The warps of a row exchange what they know of it once. A warp has the sum of its elements and their squared deviations from its
// own mean; those from the mean of the row are, over all warps, the sum of theirs and of elements * (own mean - mean of the row)^2
// (T. F. Chan, G. H. Golub, R. J. LeVeque, The American Statistician 37, 1983). As in adaln_rows, which exchanges the mean and
// then the deviations from it, nothing cancels.
#pragma once
#include "dependent.cuh"
#include "modulate.cuh"
#include "reduce.cuh"
#include "tuning.h"

namespace adaln {
using namespace common;

// The sum over LANES neighbouring threads of a warp, a power of two; each of them gets it.
template <int LANES>
__device__ __forceinline__ float lane_sum(float v) {
#pragma unroll
  for (int d = LANES / 2; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// The mean of a row, and 1 / sqrt(variance + eps), of what LANES neighbouring threads know of a warp each: sum, own mean, squared
// deviations from it and elements, all 0 where there is no warp.
template <int LANES>
__device__ __forceinline__ float of_warps(const float4& warp, float& mean, const Arguments& a) {
  float squares = warp.z;
  if (a.layer != 0) {
    mean = lane_sum<LANES>(warp.x) * a.inverse_width;
    squares = fmaf((warp.y - mean) * (warp.y - mean), warp.w, squares);
  }
  return rsqrtf(lane_sum<LANES>(squares) * a.inverse_width + a.eps);
}

// TPR threads share a row, and each has up to NV packs of it. BLOCKS blocks of 128 threads an SM bound the registers.
template <typename T, int TPR, int NV, int BLOCKS>
__global__ void __launch_bounds__(128, kAffineBlocks<128, BLOCKS>) adaln_affine(const Arguments a) {
  constexpr int N = 16 / sizeof(T), kRows = 128 / TPR, kLanes = TPR < 32 ? TPR : 32;
  static_assert(TPR <= 64, "of a row in several warps the warps of a block know each other's place");
  wait_for_previous();
  const int first = threadIdx.x % TPR;
  const uint32_t row = blockIdx.x * kRows + threadIdx.x / TPR;
  // Packs of the row from this thread's first on; none behind the last row, in the last block.
  const int left = row < a.rows ? static_cast<int>(a.packs) - first : 0;
  const auto each_pack = [&](auto f) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * TPR < left) f(v);
  };

  Pack<T, N> x[NV], scale[NV] = {}, shift[NV] = {};
  const T* const x_row = static_cast<const T*>(a.x) + row * a.x_stride + first * N;
  each_pack([&](int v) { load<kCached>(x[v], x_row, v * TPR); });
  const uint32_t group = a.rows_per_modulation.quotient(row);
  const T* const scale_row = static_cast<const T*>(a.scale) + group * a.scale_stride + first * N;
  const T* const shift_row = static_cast<const T*>(a.shift) + group * a.shift_stride + first * N;
  each_pack([&](int v) {
    if (a.scale != nullptr) load<kCached>(scale[v], scale_row, v * TPR);
    if (a.shift != nullptr) load<kCached>(shift[v], shift_row, v * TPR);
  });

  float inverse_elements = a.inverse_width, elements = 0.0f;  // of the row that this warp has, where it has not all
  if constexpr (TPR > 32) {
    int packs = 0;
#pragma unroll
    for (int v = 0; v < NV; ++v) packs += __popc(__ballot_sync(0xffffffffu, v * TPR < left));
    elements = static_cast<float>(packs * N);
    inverse_elements = 1.0f / fmaxf(elements, 1.0f);
  }
  float sum = 0.0f, mean = 0.0f, squares = 0.0f, inverse;
  if (a.layer != 0) {
    each_pack([&](int v) { sum = add_elements(x[v], sum); });
    sum = lane_sum<kLanes>(sum);
    mean = sum * inverse_elements;
  }
  each_pack([&](int v) { squares = add_squares(x[v], mean, squares); });
  squares = lane_sum<kLanes>(squares);
  if constexpr (TPR > 32) {
    __shared__ float4 warps[4];
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) warps[warp] = make_float4(sum, mean, squares, elements);
    __syncthreads();
    inverse = of_warps<2>(warps[warp / 2 * 2 + threadIdx.x % 2], mean, a);
  } else {
    inverse = rsqrtf(squares * a.inverse_width + a.eps);
  }
#pragma unroll
  for (int v = 0; v < NV; ++v) keep_packed(x[v]);

  T* const out_row = static_cast<T*>(a.out) + row * a.out_stride + first * N;
  each_pack([&](int v) {
    float factor[N], addend[N];
    unpack(scale[v], factor);
    unpack(shift[v], addend);
#pragma unroll
    for (int j = 0; j < N; ++j) factor[j] += a.one;
    modulate(x[v], factor, addend, mean, inverse);
    store(out_row, v * TPR, x[v]);
  });
}

}  // namespace adaln
