// Cross-entropy of rows of logits with targets, and its gradient.
//
// loss = (1 - smoothing) * (lse - logits[target]) + smoothing * (lse - mean of logits), in which lse is the log of the
// row's sum of exponentials. A target that is ignore_index gives loss and gradient 0. One that is no class gives NaN in
// both, and nothing is read for it.
#pragma once
#include "arguments.h"
#include "dependent.cuh"
#include "pack.cuh"
#include "pair.cuh"
#include "reduce.cuh"
#include "softmax.cuh"
#include "span.cuh"

namespace softmax {
using namespace common;

constexpr float kLog2E = 1.44269504f;

// Every logit is read once: a thread keeps a running maximum and sum, and a row of any width takes the same registers.
template <typename T, int N, int TPR>
__global__ void __launch_bounds__(kBlockThreads<TPR>) cross_entropy_rows(const CrossEntropyArguments a) {
  wait_for_previous();
  constexpr int kRows = kBlockThreads<TPR> / TPR;
  __shared__ float2 scratch[32];
  __shared__ alignas(16) float sums[32];
  const int first = kRows == 1 ? threadIdx.x : threadIdx.x % TPR;
  const int64_t row = kRows == 1 ? blockIdx.x : static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / TPR;
  const bool there = kRows == 1 || row < a.rows;
  const T* logits = static_cast<const T*>(a.logits) + row * a.logits_stride;

  // One thread's, and fetched first: it has come when the row has.
  int64_t target = -1;
  if (there && first == 0) target = a.targets[row];
  float total = 0.0f;  // of the logits; smoothing needs their mean
  const Span<N> span = span_of<N>(logits, there ? a.classes : 0);
  // Two loops, since rows of a few packs a thread wait for instructions as much as for memory.
  const auto add = [&](const auto& f) { total += sum_of(f); };
  const auto nothing = [](const auto&) {};
  const Scale scale = {1.0f, kLog2E};
  const Pair own = a.smoothing != 0.0f ? stream_pair<TPR, true>(logits, span, first, scale, add)
                                       : stream_pair<TPR, true>(logits, span, first, scale, nothing);
  // From the caches, where the row has just come by, and while the others' pairs are awaited.
  Pack<T, 1> chosen;
  const bool is_class = target >= 0 && target < a.classes;
  if (is_class) load<kCached>(chosen, logits, target);
  const Pair p = row_pair<TPR>(own, scale.c, scratch);
  if (a.smoothing != 0.0f) total = row_sum<TPR>(total, sums);
  if (!there || first != 0) return;

  const float log_sum = logf(p.sum), lse = p.max + log_sum;
  const float logit = is_class ? to_float<T>(chosen.word[0]) : NAN;
  float loss = (p.max - logit) + log_sum;  // not lse - logit, in which large logits round the sum away
  // An infinite logit has an infinite mean, which must not meet a smoothing of 0.
  if (a.smoothing != 0.0f) {
    const float mean = total / static_cast<float>(a.classes);
    loss = fmaf(a.smoothing, logit - mean, loss);
  }
  a.lse[row] = lse;
  a.loss[row] = target == a.ignore_index ? 0.0f : loss;
}

// dlogits = (exp(logits - lse) - (1 - smoothing) at the target - smoothing / classes) * dloss. A piece of a row a block
// where rows are wide. dlogits may be logits.
template <typename T, int N, int TPR>
__global__ void __launch_bounds__(kBlockThreads<TPR>) cross_entropy_backward_rows(const CrossEntropyArguments a) {
  wait_for_previous();
  constexpr int kRows = kBlockThreads<TPR> / TPR, kGroup = 2;
  const int piece = kRows == 1 ? static_cast<int>(blockIdx.x % static_cast<unsigned>(a.pieces)) : 0;
  const int64_t row = kRows == 1 ? blockIdx.x / static_cast<unsigned>(a.pieces)
                                 : static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / TPR;
  if (kRows > 1 && row >= a.rows) return;
  const int first = kRows == 1 ? threadIdx.x : threadIdx.x % TPR;
  const T* logits = static_cast<const T*>(a.logits) + row * a.logits_stride;
  T* dlogits = static_cast<T*>(a.dlogits) + row * a.dlogits_stride;
  const Span<N> span = span_of<N>(logits, a.classes);

  // The logits are asked for before what the row has one of, which is waited for at once.
  int i = piece * kGroup * TPR + first;
  const bool has_edge = piece == 0 && first < span.edges;
  Pack<T, N> x[kGroup];
  Pack<T, 1> x_edge;
  const auto fetch = [&] {
#pragma unroll
    for (int v = 0; v < kGroup; ++v)
      if (v * TPR < span.packs - i) load<kCached>(x[v], logits + span.head, static_cast<int64_t>(i) + v * TPR);
  };
  fetch();
  if (has_edge) load<kCached>(x_edge, logits, span.edge(first));

  const int64_t target = a.targets[row];
  const float lse = a.row_lse[row], dloss = a.dloss[row];
  const bool ignored = target == a.ignore_index;
  const float slope = target >= 0 && target < a.classes ? dloss : NAN, hit = 1.0f - a.smoothing;

  // pack becomes the gradient of the logits from `at` on.
  const auto gradient = [&](auto& pack, auto& f, int64_t at) {
    constexpr int kCount = sizeof(f) / sizeof(float);
    unpack(pack, f);
    const int64_t here = target - at;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      // The difference first: it is small where the logits are large.
      f[j] = exp2_fast((f[j] - lse) * kLog2E) - a.share;
    }
    if (here >= 0 && here < kCount) {  // one thread of a row
#pragma unroll
      for (int j = 0; j < kCount; ++j) f[j] -= j == here ? hit : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) f[j] = ignored ? 0.0f : f[j] * slope;
    repack(pack, f);
  };
  const int step = kGroup * TPR * a.pieces;
  while (i < span.packs) {
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      if (v * TPR < span.packs - i) {
        const int64_t at = static_cast<int64_t>(i) + v * TPR;
        float f[N];
        gradient(x[v], f, span.head + at * N);
        store(dlogits + span.head, at, x[v]);
      }
    }
    i += step;
    fetch();
  }
  if (has_edge) {
    float f[1];
    gradient(x_edge, f, span.edge(first));
    store(dlogits, span.edge(first), x_edge);
  }
}

}  // namespace softmax
