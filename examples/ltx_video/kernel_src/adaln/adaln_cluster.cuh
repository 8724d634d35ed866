// The same for few wide rows, not gated: the blocks of a cluster (sm_90) share a row, which one SM alone would take longer to load
// and to compute with than memory to deliver. The warps exchange what they know of it as those of adaln_affine do, each with all
// blocks; here there are registers for tables too.
#pragma once
#include "adaln_affine.cuh"
#include "cluster.cuh"

namespace adaln {

// CLUSTER blocks of THREADS threads a row, each with up to NV packs.
template <typename T, int N, int CLUSTER, int THREADS, int NV>
__global__ void __launch_bounds__(THREADS) adaln_cluster(const Arguments a) {
  if constexpr (!kUsed<90>) {
    __trap();
    return;
  }
  constexpr int kWarps = THREADS / 32 * CLUSTER, kStep = THREADS * CLUSTER;  // of a row
  static_assert(kWarps <= 32, "a thread of each warp reads what one warp knows");
  __shared__ float2 warps[kWarps];  // sum, and squared deviations from the own mean
  __shared__ Mbarrier received;
  if (threadIdx.x == 0) {
    mbarrier_init(received);
    mbarrier_init_fence();
    mbarrier_expect(received, kWarps * 8);
  }
  __syncwarp();
  cluster_arrive();
  wait_for_previous();

  const int rank = cluster_rank(), row = cluster_index(), first = rank * THREADS + threadIdx.x;
  const int packs = static_cast<int>(a.packs), left = packs - first, lane = threadIdx.x % 32, warp = first / 32;
  const auto each_pack = [&](auto f) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (v * kStep < left) f(v);
  };
  Pack<T, N> x[NV];
  const T* const x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  each_pack([&](int v) { load<kCached>(x[v], x_row, first + v * kStep); });
  const uint32_t group = a.rows_per_modulation.quotient(row);
  const T* const scale_row = static_cast<const T*>(a.scale) + group * a.scale_stride;
  const T* const shift_row = static_cast<const T*>(a.shift) + group * a.shift_stride;
  float factor[NV][N], addend[NV][N];  // computed while the loads of x are in flight
  if constexpr (N == 1) {
    combine_elements(factor, addend, scale_row, shift_row, first, kStep, a, each_pack);
  } else {
    Modulation<T, N> modulation[NV];
    each_pack([&](int v) { fetch(modulation[v], scale_row, shift_row, first + v * kStep, a); });
    each_pack([&](int v) { combine(factor[v], addend[v], modulation[v], first + v * kStep, a); });
  }

  // Elements of a row that its w-th warp has.
  const auto elements_of = [&](int w) {
    int all = 0;
#pragma unroll
    for (int v = 0; v < NV; ++v) all += max(0, min(32, packs - w * 32 - v * kStep)) * N;
    return static_cast<float>(all);
  };
  float sum = 0.0f, mean = 0.0f, squares = 0.0f;
  if (a.layer != 0) {
    each_pack([&](int v) { sum = add_elements(x[v], sum); });
    sum = lane_sum<32>(sum);
    mean = sum / fmaxf(elements_of(warp), 1.0f);
  }
  each_pack([&](int v) { squares = add_squares(x[v], mean, squares); });
  squares = lane_sum<32>(squares);
  cluster_wait();  // all blocks have begun, and their mbarriers are ready
  if (lane < CLUSTER) send(&warps[warp], received, lane, make_float2(sum, squares));
  mbarrier_wait(received, 0);
  float4 other = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (lane < kWarps) {
    const float elements = elements_of(lane);
    other = make_float4(warps[lane].x, warps[lane].x / fmaxf(elements, 1.0f), warps[lane].y, elements);
  }
  const float inverse = of_warps<32>(other, mean, a);

  T* const out_row = static_cast<T*>(a.out) + row * a.out_stride;
  each_pack([&](int v) {
    modulate(x[v], factor[v], addend[v], mean, inverse);
    store(out_row, first + v * kStep, x[v]);
  });
}

}  // namespace adaln
