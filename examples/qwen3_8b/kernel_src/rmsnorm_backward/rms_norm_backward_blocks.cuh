// Rows of several warps: of a block, of some of a block's warps, or of a cluster.
//
// A row is copied to shared memory while the one before it is worked on, each pack by the thread that reads it: the only barrier is
// that of the sums, and no register waits for a load. H200, us: 8192 x 4096 54.8 (loaded when registers became free 63.6), 7377 x
// 3521 53.5 (62.7). Left out: two rows on their way (8192 x 4096 58.3, with the instructions of then 57.8); whole rows by a bulk copy,
// of one thread, one, two or three on their way (12000 x 1536 40.1, 41.1, 36.9 for 33.1).
//
// What limits rows in registers is instructions: the sums of a row's warps are added by as many lanes, and where an SM has 64 registers
// for each of 1,024 threads, x, dy and the weight stay there in fp32.
#pragma once
#include <type_traits>

#include "async_copy.cuh"
#include "cluster.cuh"
#include "partial_sums.cuh"
#include "rms_norm_backward.cuh"

namespace rmsnorm_backward {
using namespace common;

// Each thread holds up to NV packs of N elements of x and dy, and the sums of as many columns. A row is a block's, of up to THREADS
// threads; of kGroupedThreads, it is that of a.row_threads of them, so that the block leaves one row of partial sums for several rows
// at a time; if SHARED, it is that of the blocks of a cluster, each of which has as many of its columns as the others. BLOCKS blocks are to
// stand on an SM.
//
// WHOLE: as in rms_norm_backward_warps.
template <typename T, int N, int THREADS, int NV, int BLOCKS, bool SHARED, bool WHOLE, int FIRST, int LAST>
__global__ void __launch_bounds__(THREADS, kBlocksPerSm<THREADS, BLOCKS>) rms_norm_backward_blocks(const Arguments a) {
  if constexpr (!kUsed<FIRST, LAST>) {
    __trap();
    return;
  }
  // weight_gradient's blocks may then come where there is room, and wait for the sums.
  wait_for_previous();
  constexpr bool kGrouped = THREADS == kGroupedThreads && !SHARED;
  constexpr bool kCopied = is_copied(THREADS, NV, SHARED);
  constexpr bool kWeightResident = NV < 4;  // else it is loaded from L1 twice a row
  constexpr bool kKeepsFloats = WHOLE && NV == 1 && THREADS * BLOCKS <= 1024;
  constexpr bool kFactorResident = WHOLE && NV == 1 && !kGrouped;  // in fp32
  static_assert(WHOLE || (NV == 1 && !kGrouped), "the elements beside the packs, and their sums");
  __shared__ alignas(16) std::conditional_t<SHARED, ClusterScratch, SumScratch> scratch;
  extern __shared__ uint4 places[];  // x and dy of the next row, then the sums
  if constexpr (SHARED) begin_cluster(scratch);

  const int row_threads = kGrouped ? a.row_threads : static_cast<int>(blockDim.x), warps = row_threads / 32;
  const int group = kGrouped ? threadIdx.x / row_threads : 0;
  int first = threadIdx.x - group * row_threads;
  // Of no more rows than 31 bits count.
  uint32_t row = SHARED ? cluster_index() : blockIdx.x * (kGrouped ? blockDim.x / row_threads : 1) + group;
  const uint32_t end = static_cast<uint32_t>(a.rows), step = static_cast<uint32_t>(a.step);
  // The first column of a pack, and the end of this block's packs.
  int head = 0, packs = static_cast<int>(a.width / N);
  Beside<T> one;
  if constexpr (!WHOLE) {
    const Ends<T> ends(static_cast<const T*>(a.x) + row * a.x_stride, static_cast<int>(a.width));
    head = ends.head, packs = ends.packs;
    one.choose(ends, SHARED && cluster_rank() != 0 ? kNoThread : first);
  }
  if constexpr (SHARED) {
    // This block's part of the row, in whole warps.
    const int all = 32 * cluster_size(), share = (packs + all - 1) / all * 32, end = share * (cluster_rank() + 1);
    first += share * cluster_rank();
    packs = packs < end ? packs : end;
  }
  const auto row_of = [&](const void* data, uint32_t at, int64_t stride) { return static_cast<const T*>(data) + at * stride + head; };

  Pack<T, N> x[NV], dy[NV], weight[kWeightResident ? NV : 1];
  float factor[NV][N], dw[NV][N] = {};
  const auto weight_of = [&](int v) -> const auto& {
    if constexpr (kFactorResident) {
      return factor[v];
    } else {
      return weight[kWeightResident ? v : 0];
    }
  };
  const T *x_row = row_of(a.x, row, a.x_stride), *dy_row = row_of(a.dy, row, a.dy_stride);
  const auto load_pack = [&](uint32_t at, int v) {
    if (at >= end || first + v * THREADS >= packs) return;
    load<kCached>(x[v], x_row, first + v * THREADS);
    load<kCached>(dy[v], dy_row, first + v * THREADS);
  };
  const auto place = [&](int which, int v) -> uint4& { return places[(2 * v + which) * blockDim.x + threadIdx.x]; };
  const auto copy_row = [&](uint32_t at) {
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (at < end && first + v * THREADS < packs) {
        copy_16(place(0, v), row_of(a.x, at, a.x_stride) + (first + v * THREADS) * N);
        copy_16(place(1, v), row_of(a.dy, at, a.dy_stride) + (first + v * THREADS) * N);
      }
    }
    commit_copies();
    if constexpr (!WHOLE) {
      if (one.is_here && at < end) one.load_next(row_of(a.x, at, a.x_stride), row_of(a.dy, at, a.dy_stride));
    }
  };

  if constexpr (kCopied) {
    copy_row(row);
  } else {
#pragma unroll
    for (int v = 0; v < NV; ++v) load_pack(row, v);
  }
  if (!WHOLE && one.is_here) load_weight(one.weight, a, head + one.at);
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    if (kWeightResident && first + v * THREADS < packs) {
      if constexpr (WHOLE) {
        load_weight(weight[v], a, first + v * THREADS);
      } else {
        load_weight_anywhere(weight[v], a, head + (first + v * THREADS) * N);
      }
      if constexpr (kFactorResident) get_factor(factor[v], weight[v], a.weight_offset);
    }
  }

  if constexpr (SHARED) cluster_wait();
  // By the block's first row: all its groups take part in as many reductions, one without a row of its own too.
#pragma unroll 1
  for (int round = 0; row - group < end; round = (round + 1) % 4) {
    const uint32_t next = row + step;
    const bool is_row = !kGrouped || row < end;
    if constexpr (kCopied) {
      wait_for_copies<0>();
#pragma unroll
      for (int v = 0; v < NV; ++v) x[v] = pack_at<T>(place(0, v)), dy[v] = pack_at<T>(place(1, v));
      if constexpr (!WHOLE) one.x = one.next_x, one.dy = one.next_dy;
      copy_row(next);
    } else if (threadIdx.x == 0 && first < packs && next < end) {
      // Rows in more registers have the next row in L2 by then. 20000 x 5120 155 (without 210), 8192 x 8192 106 (119; copied 117).
      prefetch_packs<T, N>(row_of(a.x, next, a.x_stride), first, packs);
      prefetch_packs<T, N>(row_of(a.dy, next, a.dy_stride), first, packs);
    }
    float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * THREADS < packs && is_row) {
        if constexpr (!kWeightResident) load_weight(weight[0], a, first + v * THREADS);
        add_products(x[v], dy[v], weight_of(v), a.weight_offset, total);
      }
    }
    if constexpr (!WHOLE) {
      if (one.is_here) add_products(one.x, one.dy, one.weight, a.weight_offset, total);
    }
    if constexpr (SHARED) {
      total = cluster_sums(total, scratch, round, warps);
    } else {
      total = block_sums<THREADS / 32, kGrouped>(total, scratch, round % 2, warps, group);
    }
    // What is found from it is then found anew for each row: some code would spill.
    if constexpr (kGrouped || !WHOLE) asm volatile("" : "+r"(first));
    const float scale = rsqrtf(total.x * a.inverse_width + a.eps);
    const float mean = total.y * a.inverse_width * scale;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if constexpr (!kKeepsFloats) keep_packed(x[v]), forget_products(dy[v]);
      if constexpr (!kFactorResident) keep_packed(weight[kWeightResident ? v : 0]);
    }

    T* const dx_row = static_cast<T*>(a.dx) + row * a.dx_stride + head;
    row = next;
    x_row += a.x_step, dy_row += a.dy_step;
#pragma unroll
    for (int v = 0; v < NV; ++v) {
      if (first + v * THREADS < packs && is_row) {
        if constexpr (!kWeightResident) load_weight(weight[0], a, first + v * THREADS);
        gradient(x[v], dy[v], weight_of(v), a.weight_offset, scale, mean, dw[v]);
        store(dx_row, first + v * THREADS, x[v]);
      }
      // The next row, into the registers that have just become free.
      if constexpr (!kCopied) load_pack(row, v);
    }
    if constexpr (!WHOLE) {
      if (one.is_here) one.store_row(dx_row, a.weight_offset, scale, mean);
    }
  }

  if (a.partial == nullptr) return;
  float* const partial = a.partial + (SHARED ? cluster_index() : static_cast<int>(blockIdx.x)) * a.width;
  float* const sums = reinterpret_cast<float*>(places);
  if constexpr (!WHOLE) {
    // A pack's sums begin anywhere between multiples of 16 bytes. Stored by their thread they would take eight times as many
    // sectors: 98 x 6530 12.4 us, through shared memory 7.8.
#pragma unroll
    for (int j = 0; j < N; ++j) sums[slot_of<N>(threadIdx.x * N + j)] = dw[0][j];
    if (one.is_here) partial[head + one.at] = one.dw[0];
    __syncthreads();
    const int before = first - static_cast<int>(threadIdx.x);  // packs of the cluster's blocks before this one
    float* const own = partial + head + before * N;
    for (int i = threadIdx.x; i < (packs - before) * N; i += blockDim.x) own[i] = sums[slot_of<N>(i)];
  } else if (kGrouped && static_cast<int>(blockDim.x) > row_threads) {
    // Each group's lie in quarters of packs, a quarter of all threads' behind the other.
    constexpr int kQuarters = N / 4;
    float4* const quarters = reinterpret_cast<float4*>(sums);
#pragma unroll
    for (int q = 0; q < kQuarters; ++q)
      quarters[q * blockDim.x + threadIdx.x] = make_float4(dw[0][4 * q], dw[0][4 * q + 1], dw[0][4 * q + 2], dw[0][4 * q + 3]);
    __syncthreads();
    for (int i = threadIdx.x; i < packs * kQuarters; i += blockDim.x) {
      const float4* from = quarters + i % kQuarters * blockDim.x + i / kQuarters;
      float4 sum = *from;
      for (int threads = row_threads; threads < static_cast<int>(blockDim.x); threads += row_threads) {
        from += row_threads;
        sum.x += from->x, sum.y += from->y, sum.z += from->z, sum.w += from->w;
      }
      reinterpret_cast<float4*>(partial)[i] = sum;
    }
  } else {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (first + v * THREADS < packs) store_sums(partial, first + v * THREADS, dw[v]);
  }
}

}  // namespace rmsnorm_backward
