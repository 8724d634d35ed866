// The same for narrow rows that begin or end between multiples of 16 bytes, by accesses of 16 bytes even so, several rows a block.
//
// The weight begins elsewhere than the row, and of rows this narrow putting its packs together would take more instructions than the
// row itself. So a block has it in shared memory, as fp32, from where threads take each element of it.
#pragma once
#include "rms_norm.cuh"
#include "unaligned.cuh"

namespace rmsnorm {

// x becomes x * scale * factor; scale is 1 / rms.
template <typename T, int N>
__device__ __forceinline__ void normalize(Pack<T, N>& x, const float* factor, float scale, bool round_first) {
  float f[N];
  unpack(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] *= scale;
  if (sizeof(T) == 2 && round_first) {
    repack(x, f);
    unpack(x, f);
  }
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] *= factor[j];
  repack(x, f);
}

// TPR threads share a row. A thread has up to NV of its packs, and up to kEdges of the elements beside them.
template <typename T, int TPR, int NV, bool ADD>
__global__ void __launch_bounds__(kBlockThreads<TPR>) rms_norm_narrow(const RowArguments a) {
  wait_for_previous();
  constexpr int N = 16 / sizeof(T), kRows = kBlockThreads<TPR> / TPR, kEdges = (2 * (N - 1) + TPR - 1) / TPR;
  __shared__ float factor[(TPR * NV + 1) * N], scratch[32];  // weight + weight_offset; rows have fewer than one pack beside whole ones

  const int width = static_cast<int>(a.width);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / TPR;
  const auto row_of = [&](const void* data, int64_t stride) { return static_cast<const T*>(data) + row * stride; };
  const auto share = [&](int e) {
    return Share<T>(row_of(a.x, a.x_stride), row < a.rows ? width : 0, threadIdx.x % TPR + e * TPR);
  };
  const Share<T> own = share(0);
  const auto each_pack = [&](auto f) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * TPR < own.left) f(v);
  };
  const auto each_edge = [&](auto f) {
#pragma unroll
    for (int e = 0; e < kEdges; ++e)
      if (share(e).beside) f(e, share(e).element);
  };

  Pack<T, N> x[NV], residual[ADD ? NV : 1];
  Pack<T, 1> x_edge[kEdges], residual_edge[ADD ? kEdges : 1];
  const auto load_row = [&](auto& packs, auto& edges, const T* from) {
    each_pack([&](int v) { load<kCached>(packs[v], from + own.first, v * TPR); });
    each_edge([&](int e, int at) { load<kCached>(edges[e], from, at); });
  };
  load_row(x, x_edge, row_of(a.x, a.x_stride));
  if constexpr (ADD) load_row(residual, residual_edge, row_of(a.residual, a.residual_stride));
  for (int i = threadIdx.x; i < width; i += kBlockThreads<TPR>) {
    factor[i] = a.weight != nullptr ? to_float<T>(static_cast<const T*>(a.weight)[i].bits) + a.weight_offset : 1.0f;
  }
  if constexpr (ADD) {
    T* const sum_row = const_cast<T*>(row_of(a.sum, a.sum_stride));
    each_pack([&](int v) {
      add_residual(x[v], residual[v]);
      store(sum_row + own.first, v * TPR, x[v]);
      keep_packed(x[v]);
    });
    each_edge([&](int e, int at) {
      add_residual(x_edge[e], residual_edge[e]);
      store(sum_row, at, x_edge[e]);
    });
  }

  float squares[2] = {0.0f, 0.0f};
  each_pack([&](int v) { add_squares(x[v], squares); });
  each_edge([&](int e, int) { add_squares(x_edge[e], squares); });
  const float scale = rsqrtf(row_sum<TPR>(squares[0] + squares[1], scratch) * a.inverse_width + a.eps);
  __syncthreads();
  T* const out_row = const_cast<T*>(row_of(a.out, a.out_stride));
  each_pack([&](int v) {
    keep_packed(x[v]);
    normalize(x[v], factor + own.first + v * TPR * N, scale, a.round_first != 0);
    store(out_row + own.first, v * TPR, x[v]);
  });
  each_edge([&](int e, int at) {
    normalize(x_edge[e], factor + at, scale, a.round_first != 0);
    store(out_row, at, x_edge[e]);
  });
}

}  // namespace rmsnorm
