// The partial sums of dw: a block's own, and those of a cluster's blocks together.
#pragma once
#include "cluster.cuh"
#include "pack.cuh"
#include "tuning.h"

// The i-th N partial sums of a row of them.
template <int N>
__device__ __forceinline__ void load_sums(float (&sums)[N], const float* p, int64_t i) {
  constexpr int kEach = N % 4 == 0 ? 4 : 1;
#pragma unroll
  for (int j = 0; j < N; j += kEach) {
    Pack<F32, kEach> pack;
    load<kCached>(pack, reinterpret_cast<const F32*>(p), (i * N + j) / kEach);
#pragma unroll
    for (int k = 0; k < kEach; ++k) sums[j + k] = to_float<F32>(pack.word[k]);
  }
}

template <int N>
__device__ __forceinline__ void store_sums(float* p, int64_t i, const float (&sums)[N]) {
  constexpr int kEach = N % 4 == 0 ? 4 : 1;
#pragma unroll
  for (int j = 0; j < N; j += kEach) {
    Pack<F32, kEach> pack;
#pragma unroll
    for (int k = 0; k < kEach; ++k) pack.word[k] = to_bits<F32>(sums[j + k]);
    store(reinterpret_cast<F32*>(p), (i * N + j) / kEach, pack);
  }
}

// Where a block gets the other blocks' sums of its slice of the columns, [block, column]: PACKS packs of N in all, and
// what rounding the slices up to whole packs takes.
template <int PACKS, int N>
struct SumsOfACluster {
  alignas(16) float sums[(PACKS + kMostBlocksOfACluster) * N];
  Mailbox box;
};

template <int PACKS, int N>
__device__ __forceinline__ void begin_cluster(SumsOfACluster<PACKS, N>& all) {
  if (threadIdx.x == 0) {
    make_mailbox(all.box);
    begin_mail();
  }
  __syncwarp();
  cluster_arrive();
}

// Sends the i-th N of this block's sums to the block in whose slice they are.
template <int PACKS, int N>
__device__ __forceinline__ void send_sums(const SumsOfACluster<PACKS, N>& all, int width, int i, const float (&sums)[N]) {
  const int slice = (width + cluster_size() - 1) / cluster_size(), to = i / slice;
  const float4* place = reinterpret_cast<const float4*>(all.sums + (cluster_rank() * slice + i - to * slice) * N);
#pragma unroll
  for (int j = 0; j < N; j += 4)
    send(place + j / 4, all.box, to, make_float4(sums[j], sums[j + 1], sums[j + 2], sums[j + 3]));
}

// Waits for the others' and adds this block's slice, in the order of their ranks, whoever came first.
template <int THREADS, int PACKS, int N>
__device__ __forceinline__ void add_sums(SumsOfACluster<PACKS, N>& all, int width, float* partial) {
  constexpr int kEach = N / 4;
  const int size = cluster_size(), slice = (width + size - 1) / size, from = cluster_rank() * slice;
  const int own = from + slice <= width ? slice : from < width ? width - from : 0;
  if (threadIdx.x == 0) expect_mail(all.box, size * own * N * 4);
  await_mail(all.box, 0);
  const float4* sums = reinterpret_cast<const float4*>(all.sums);
  for (int i = threadIdx.x; i < own * kEach; i += THREADS) {
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int k = 0; k < size; ++k) {
      const float4 part = sums[k * slice * kEach + i];
      total.x += part.x, total.y += part.y, total.z += part.z, total.w += part.w;
    }
    reinterpret_cast<float4*>(partial)[from * kEach + i] = total;
  }
}
