// The rotation of q and k: each pair (x, y) of a token becomes (x cos - y sin, y cos + x sin).
//
// The floor is memory: q and k are read and written once. A table of fp32 pairs is half as many bytes again, so a
// thread rotates the same pairs of q and of k with one reading of it (TENSORS = 2), and q and k leave no line in L1,
// where the table stays.
#pragma once
#include "rotate.cuh"

namespace rope3d {

// TPT threads share a part of a token, each with NV accesses of E elements; blockIdx.z is the part. The parts of all
// tokens follow each other, so that of a wide table a part at a time is in L1. TENSORS = 1: blockIdx.y is q or k.
template <typename T, int E, int TPT, int NV, int TENSORS, Access LOAD, int FIRST, int LAST>
__global__ void __launch_bounds__(kBlockThreads<TPT>) rope3d_tokens(const RotaryArguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  wait_for_previous();
  constexpr int P = Pairs<T, E>::kCount;
  const uint32_t token = find_token<TPT>();
  const int first = static_cast<int>(blockIdx.z) * (TPT * NV) + find_thread<TPT>(), count = a.dim / (2 * P);
  if (token >= a.tokens) return;

  Pairs<T, E> x[TENSORS][NV];
  Rotation<P> rotation[NV];
#pragma unroll
  for (int t = 0; t < TENSORS; ++t) {
    const TensorArguments& tensor = a.tensor[TENSORS == 1 ? blockIdx.y : t];
    const T* row = static_cast<const T*>(tensor.x) + token * tensor.x_stride;
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * TPT < count) load_pairs<LOAD>(x[t][v], row, first + v * TPT);
  }
  const Place place = find_place(a, token);
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (first + v * TPT < count) load_rotation(rotation[v], place, first + v * TPT, a);
#pragma unroll
  for (int t = 0; t < TENSORS; ++t) {
    const TensorArguments& tensor = a.tensor[TENSORS == 1 ? blockIdx.y : t];
    T* row = static_cast<T*>(tensor.out) + token * tensor.out_stride;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * TPT < count) {
        float f[2 * P];
        unpack_pairs(x[t][v], f);
        rotate(f, rotation[v], a.sin_sign);
        repack_pairs(x[t][v], f);
        store_pairs(row, first + v * TPT, x[t][v]);
      }
    }
  }
}

}  // namespace rope3d
