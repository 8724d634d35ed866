// Softmax of rows: out = exp(scale * x - max) / sum of these.
//
// The floor is memory: x is read once and out is written once. So a row stays in registers from its load to its store:
// TPR threads of each of a cluster's CL blocks share it, and each holds NV packs of N elements. A block that has a row
// alone, up to 4 packs a thread, has as many warps as the row needs, up to TPR threads. A position of -infinity
// gives 0; a row of nothing else gives NaN, as torch does. out may be x.
//
// Rows of one warp or less are limited by instructions before they are limited by memory: their maximum is found two elements at a
// time, an exponent is one operation, and rows of whole packs skip what others have beside their packs.
#pragma once
#include "arch.h"
#include "arguments.h"
#include "cluster_pair.cuh"
#include "dependent.cuh"
#include "largest.cuh"
#include "pack.cuh"
#include "pair.cuh"
#include "reduce.cuh"
#include "span.cuh"

namespace softmax {
using namespace common;

// f becomes 2^(c * (sign * f - top)). The difference first: a product alone may be beyond fp32, where masks are its least number.
template <bool UP, int N>
__device__ __forceinline__ void exponentials(float (&f)[N], Scale scale, float top) {
#pragma unroll
  for (int j = 0; j < N; ++j) f[j] = exp2_fast((UP ? f[j] - top : fmaf(f[j], scale.sign, -top)) * scale.c);
}

template <int N>
__device__ __forceinline__ float sum_of(const float (&f)[N]) {
  float sum = f[0];
#pragma unroll
  for (int j = 1; j < N; ++j) sum += f[j];
  return sum;
}

// Blocks that an SM is to hold at least; 0: the compiler's choice, but for fp32 on sm_100, where it spills for a third.
template <typename T, int NV>
constexpr int kBlocksAtLeast = sizeof(T) == 4 && NV == 5 && kUsed<100, 119> ? 2 : 0;

// KEPT: how many exponentials a thread keeps in fp32. Of more the packs stay, half as large, and they are computed again.
template <typename T, int N, int TPR, int NV, int CL, int KEPT, int FIRST, int LAST>
__global__ void __launch_bounds__(kBlockThreads<TPR>, kBlocksAtLeast<T, NV>) softmax_rows(const SoftmaxArguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  wait_for_previous();
  constexpr int kRows = kBlockThreads<TPR> / TPR;  // rows a block
  // Packs from one of a thread's to the next. All blocks of a cluster have as many threads. With more than 4 packs a step
  // that is no constant takes registers that there are not.
  const int step = kRows > 1 || NV > 4 ? TPR * CL : blockDim.x;
  constexpr int kEdges = (2 * (N - 1) + TPR - 1) / TPR;  // elements outside the packs a thread, at most
  constexpr bool kOnce = NV * N <= KEPT, kOneWarp = TPR <= 32;
  static_assert(kOnce || !kOneWarp, "exponents that are had in one operation are not had again");
  __shared__ float2 scratch[32];
  __shared__ ClusterPairs cluster_pairs;
  if constexpr (CL > 1) begin_cluster<CL>(cluster_pairs);

  // The blocks of a cluster are neighbours in the grid.
  const int rank = blockIdx.x % CL;
  const int first = kRows == 1 ? rank * TPR + threadIdx.x : threadIdx.x % TPR;
  const int64_t row = kRows == 1 ? blockIdx.x / CL : static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / TPR;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
  const int width = kRows == 1 || row < a.rows ? a.width : 0;
  const bool whole = TPR <= 64 && a.whole != 0;  // wider rows have no registers for it
  const Span<N> span = whole ? Span<N>{0, width / N, 0} : span_of<N>(x_row, width);
  // From here on the first pack is this thread's. What is left of them is not above zero behind the last row either.
  const int left = span.packs - first, edges = span.edges - first;
  const int64_t begin = span.head + static_cast<int64_t>(first) * N;
  const auto each_pack = [&](auto f) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * step < left) f(v);
  };
  const auto each_edge = [&](auto f) {
    if (whole) return;
#pragma unroll
    for (int e = 0; e < kEdges; ++e)
      if (e * TPR < edges) f(e);
  };

  // Every load before the first use.
  Pack<T, N> x[NV];
  Pack<T, 1> x_edge[kEdges];
  each_pack([&](int v) { load<kCached>(x[v], x_row + begin, v * step); });
  each_edge([&](int e) { load<kCached>(x_edge[e], x_row, span.edge(first + e * TPR)); });

  // The maximum of a warp's row, or of this thread's part of a wider one.
  const Scale scale = scale_of(a.log2_scale);
  Largest<T> largest(scale.sign);
  each_pack([&](int v) { largest.add(x[v]); });
  each_edge([&](int e) { largest.add(x_edge[e]); });
  const float top = kOneWarp ? lanes_max<TPR>(largest.get()) : largest.get();

  // The exponentials relative to that, and their sum.
  float f[kOnce ? NV : 1][N], f_edge[kEdges][1], sum = 0.0f;
  const auto of_difference = [&](auto& e) { exponentials<false>(e, scale, top); };
  // The rounding of `offset` is in each of a row's exponents, so it divides out; one of 2^20 is up to 2^-4.
  const float offset = top * scale.c;
  const bool small = kOneWarp && fabsf(offset) < 1048576.0f;
  const auto at_once = [&](auto& e) {
#pragma unroll
    for (float& one : e) one = exp2_fast(fmaf(one, a.log2_scale, -offset));
  };
  const auto add_all = [&](auto exponential) {
    each_pack([&](int v) {
      keep_packed(x[v]);
      unpack(x[v], f[kOnce ? v : 0]);
      exponential(f[kOnce ? v : 0]);
      sum += sum_of(f[kOnce ? v : 0]);
    });
    each_edge([&](int e) {
      unpack(x_edge[e], f_edge[e]);
      exponential(f_edge[e]);
      sum += f_edge[e][0];
    });
  };
  if (small) {
    add_all(at_once);
  } else {
    add_all(of_difference);
  }

  // Of a wider row: from this thread's maximum to the row's. A sum of 0 is a row of -infinity: 0 times infinity is NaN.
  Pair p = {top, sum};
  if constexpr (kOneWarp) {
    p.sum = lanes_sum<TPR>(sum);
  } else {
    p = row_pair<TPR>(p, scale.c, scratch);
    if constexpr (CL > 1) p = cluster_pair<CL>(p, scale.c, cluster_pairs, rank);
  }
  const float inverse = 1.0f / p.sum;
  const float factor = kOneWarp ? inverse : exp2_fast((top - p.max) * scale.c) * inverse;
  each_pack([&](int v) {
    if constexpr (!kOnce) {
      keep_packed(x[v]);
      unpack(x[v], f[0]);
      exponentials<false>(f[0], scale, p.max);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) f[kOnce ? v : 0][j] *= kOnce ? factor : inverse;
    repack(x[v], f[kOnce ? v : 0]);
    store(out_row + begin, v * step, x[v]);
  });
  each_edge([&](int e) {
    f_edge[e][0] *= factor;
    repack(x_edge[e], f_edge[e]);
    store(out_row, span.edge(first + e * TPR), x_edge[e]);
  });
}

// Adds the exponentials of up to G packs, TPR apart, of which `left` are there, and calls also(f) with the elements of
// each.
template <typename T, int N, int TPR, bool UP, int G, typename Also>
__device__ __forceinline__ void add_packs(Pair& p, const Pack<T, N> (&x)[G], int left, Scale scale, Also also) {
  float max = p.max;
#pragma unroll
  for (int v = 0; v < G; ++v)
    if (v * TPR < left) max = pack_max<UP>(x[v], scale.sign, max);
  p.sum *= exp2_fast((p.max - max) * scale.c), p.max = max;
#pragma unroll
  for (int v = 0; v < G; ++v) {
    if (v * TPR < left) {
      float f[N];
      unpack(x[v], f);
      also(f);
      exponentials<UP>(f, scale, max);
      p.sum += sum_of(f);
    }
  }
}

// The pair of what this thread has of a row, online: each element is read once, whatever the width. UP: the scale is
// above zero.
template <int TPR, bool UP, typename T, int N, typename Also>
__device__ __forceinline__ Pair stream_pair(const T* x_row, const Span<N>& span, int first, Scale scale, Also also) {
  constexpr int kGroup = 4;  // packs in flight
  Pair p = kNoPair;
  const T* packs = x_row + span.head;
  Pack<T, 1> x_edge[1];
  const int edges = span.edges - first;
  if (edges > 0) load<kCached>(x_edge[0], x_row, span.edge(first));
  for (int i = first; i < span.packs; i += kGroup * TPR) {
    Pack<T, N> x[kGroup];
#pragma unroll
    for (int v = 0; v < kGroup; ++v)
      if (v * TPR < span.packs - i) load<kCached>(x[v], packs, static_cast<int64_t>(i) + v * TPR);
    add_packs<T, N, TPR, UP>(p, x, span.packs - i, scale, also);
  }
  add_packs<T, 1, TPR, UP>(p, x_edge, edges, scale, also);
  return p;
}

// Rows that are read a second time, from the caches as far as they are still there: one a block.
template <typename T, int N, int TPR>
__global__ void __launch_bounds__(TPR) softmax_rows_twice(const SoftmaxArguments a) {
  wait_for_previous();
  constexpr int kGroup = 4;
  __shared__ float2 scratch[32];
  const int64_t row = blockIdx.x;
  const int first = threadIdx.x;
  const Scale scale = scale_of(a.log2_scale);
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
  const Span<N> span = span_of<N>(x_row, a.width);
  const Pair own = stream_pair<TPR, false>(x_row, span, first, scale, [](const auto&) {});
  const Pair p = row_pair<TPR>(own, scale.c, scratch);
  const float inverse = 1.0f / p.sum;

  const auto finish = [&](auto& pack, auto& f) {
    unpack(pack, f);
    exponentials<false>(f, scale, p.max);
#pragma unroll
    for (float& one : f) one *= inverse;
    repack(pack, f);
  };
  // From the end, which was read last and is nearest.
  for (int i = (span.packs - 1 - first) / (kGroup * TPR) * (kGroup * TPR) + first; i >= 0 && i < span.packs;
       i -= kGroup * TPR) {
    Pack<T, N> x[kGroup];
#pragma unroll
    for (int v = 0; v < kGroup; ++v)
      if (v * TPR < span.packs - i) load<kCached>(x[v], x_row + span.head, static_cast<int64_t>(i) + v * TPR);
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      if (v * TPR < span.packs - i) {
        float f[N];
        finish(x[v], f);
        store(out_row + span.head, static_cast<int64_t>(i) + v * TPR, x[v]);
      }
    }
  }
  if (first < span.edges) {
    Pack<T, 1> x;
    float f[1];
    load<kCached>(x, x_row, span.edge(first));
    finish(x, f);
    store(out_row, span.edge(first), x);
  }
}

}  // namespace softmax
