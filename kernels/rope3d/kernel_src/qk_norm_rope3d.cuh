// RMSNorm of q and of k, each over the whole of a token with a weight of its own, and the rotation, in one pass.
//
// The floor is memory, as for the rotation alone. A token stays in registers, packed, from its load to its store.
#pragma once
#include "reduce.cuh"
#include "rotate.cuh"
#include "token_sums.cuh"

namespace rope3d {
using namespace common;

template <typename T, int E>
__device__ __forceinline__ float add_squares(const Pairs<T, E>& x, float total) {
  constexpr int N = 2 * Pairs<T, E>::kCount;
  float f[N];
  unpack_pairs(x, f);
#pragma unroll
  for (int j = 0; j < N; ++j) total = fmaf(f[j], f[j], total);
  return total;
}

// x becomes rotate(x * scale * weight); scale is 1 / rms.
template <typename T, int E, int P>
__device__ __forceinline__ void norm_and_rotate(Pairs<T, E>& x, const Pairs<T, E>& weight, bool weighted, float scale,
                                                const Rotation<P>& rotation, const RotaryArguments& a) {
  float f[2 * P], w[2 * P];
  unpack_pairs(x, f);
#pragma unroll
  for (int j = 0; j < 2 * P; ++j) f[j] *= scale;
  if (weighted) {
    unpack_pairs(weight, w);
#pragma unroll
    for (int j = 0; j < 2 * P; ++j) f[j] *= w[j];
  }
  if (sizeof(T) == 2 && a.round_first != 0) {
    repack_pairs(x, f);
    unpack_pairs(x, f);
  }
  rotate(f, rotation, a.sin_sign);
  repack_pairs(x, f);
}

// TPT threads share a token, each with up to NV accesses of E elements. TENSORS = 1: blockIdx.y is q or k.
template <typename T, int E, int TPT, int NV, int TENSORS, Access LOAD, int FIRST, int LAST>
__global__ void __launch_bounds__(kBlockThreads<TPT>) qk_norm_rope3d_tokens(const RotaryArguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  wait_for_previous();
  constexpr int P = Pairs<T, E>::kCount;
  constexpr bool kEarly = NV == 1;  // the rotation fits beside q and k: loaded before the reduction, which hides its latency
  __shared__ alignas(16) float scratch[TENSORS][32];
  const uint32_t token = find_token<TPT>();
  const int first = find_thread<TPT>();
  const int count = token < a.tokens ? a.dim / (2 * P) : 0;  // none behind the last token

  Pairs<T, E> x[TENSORS][NV], weight[TENSORS][NV];
#pragma unroll
  for (int t = 0; t < TENSORS; ++t) {
    const TensorArguments& tensor = a.tensor[TENSORS == 1 ? blockIdx.y : t];
    const T* row = static_cast<const T*>(tensor.x) + token * tensor.x_stride;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * TPT < count) load_pairs<LOAD>(x[t][v], row, first + v * TPT);
  }
#pragma unroll
  for (int t = 0; t < TENSORS; ++t) {
    const TensorArguments& tensor = a.tensor[TENSORS == 1 ? blockIdx.y : t];
    if (tensor.weight != nullptr) {
#pragma unroll
      for (int v = 0; v < NV; ++v)
        if (first + v * TPT < count) load_pairs<kCached>(weight[t][v], tensor.weight, first + v * TPT);
    }
  }
  Rotation<P> rotation;
  const Place place = find_place(a, token);
  if (kEarly && first < count) load_rotation(rotation, place, first, a);

  float scale[TENSORS];
#pragma unroll
  for (int t = 0; t < TENSORS; ++t) {
    scale[t] = 0.0f;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * TPT < count) scale[t] = add_squares(x[t][v], scale[t]);
  }
  token_sums<TPT>(scale, scratch);
#pragma unroll
  for (int t = 0; t < TENSORS; ++t) {
    scale[t] = rsqrtf(scale[t] * a.inverse_dim + a.eps);
#pragma unroll
    for (int v = 0; v < NV; ++v) keep_packed(x[t][v]);
  }

#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (first + v * TPT < count) {
      if (!kEarly) load_rotation(rotation, place, first + v * TPT, a);
#pragma unroll
      for (int t = 0; t < TENSORS; ++t) {
        const TensorArguments& tensor = a.tensor[TENSORS == 1 ? blockIdx.y : t];
        T* row = static_cast<T*>(tensor.out) + token * tensor.out_stride;
        norm_and_rotate(x[t][v], weight[t][v], tensor.weight != nullptr, scale[t], rotation, a);
        store_pairs(row, first + v * TPT, x[t][v]);
      }
    }
  }
}

// Tokens of any width, read a second time from the caches as far as they are still there: one a block of up to 512
// threads, blockIdx.y is q or k. A thread writes what it alone has read, so out may be x.
template <typename T, int E>
__global__ void __launch_bounds__(512) qk_norm_rope3d_twice(const RotaryArguments a) {
  wait_for_previous();
  constexpr int P = Pairs<T, E>::kCount;
  __shared__ alignas(16) float scratch[32];
  const uint32_t token = blockIdx.x;
  const int count = a.dim / (2 * P), step = blockDim.x;
  const TensorArguments& tensor = a.tensor[blockIdx.y];
  const T* x_row = static_cast<const T*>(tensor.x) + token * tensor.x_stride;
  T* out_row = static_cast<T*>(tensor.out) + token * tensor.out_stride;
  Pairs<T, E> x, weight;

  float squares = 0.0f;
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += step) {
    load_pairs<kCached>(x, x_row, i);
    squares = add_squares(x, squares);
  }
  const float scale = rsqrtf(block_sum(squares, scratch) * a.inverse_dim + a.eps);
  const Place place = find_place(a, token);
  for (int i = threadIdx.x; i < count; i += step) {
    Rotation<P> rotation;
    load_pairs<kCached>(x, x_row, i);
    if (tensor.weight != nullptr) load_pairs<kCached>(weight, tensor.weight, i);
    load_rotation(rotation, place, i, a);
    norm_and_rotate(x, weight, tensor.weight != nullptr, scale, rotation, a);
    store_pairs(out_row, i, x);
  }
}

}  // namespace rope3d
