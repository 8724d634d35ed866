// The same for many narrow rows without gaps that are no whole number of 16 bytes: a block's rows lie side by side, so they
// come into shared memory and leave it in accesses of 16 bytes, whatever their width.
//
// Accesses of one element to global memory would be eight times as many, and every store would write parts of sectors. A thread
// keeps its elements of the weight, as fp32, for all rows that it works on.
#pragma once
#include "rms_norm.cuh"

namespace rmsnorm {

// The packs of a block's rows, and the elements behind the last pack, which only the last block has. Each is f(i) for
// the packs and g(i) for the elements.
template <int N, typename F, typename G>
__device__ __forceinline__ void for_each_pack(int elements, F f, G g) {
  const int packs = elements / N, tail = elements % N;
  for (int i = threadIdx.x; i < packs; i += kStagedThreads) f(i);
  if (static_cast<int>(threadIdx.x) < tail) g(packs * N + threadIdx.x);
}

// From global to shared memory. Returns before the packs are there: wait_for_staged is to follow.
template <typename T>
__device__ __forceinline__ void stage(T* to, const T* from, int elements) {
  constexpr int N = 16 / sizeof(T);
  for_each_pack<N>(
      elements,
      [=](int i) {
        const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to + i * N));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from + i * N) : "memory");
      },
      [=](int i) { to[i] = from[i]; });
}
__device__ __forceinline__ void wait_for_staged() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

template <typename T>
__device__ __forceinline__ void unstage(T* to, const T* from, int elements) {
  constexpr int N = 16 / sizeof(T);
  for_each_pack<N>(
      elements,
      [=](int i) {
        Pack<T, N> pack;
        load<kCached>(pack, from, i);
        store(to, i, pack);
      },
      [=](int i) { to[i] = from[i]; });
}

// Blocks that an SM shall hold: this bounds the registers, to 64 or 80. The bytes on their way are in shared
// memory, so that few warps hide the latency.
template <int NV>
constexpr int kStagedBlocks = NV == 8 ? 8 : 6;

// TPR threads share a row, of up to NV elements each, in accesses of E: E divides the width. A block has a.block_rows rows,
// a multiple of the elements of 16 bytes, so that each block's begin at a multiple of 16 bytes.
template <typename T, int E, int TPR, int NV, bool ADD>
__global__ void __launch_bounds__(kStagedThreads, kStagedBlocks<NV>) rms_norm_staged(const RowArguments a) {
  if constexpr (!kUsed<kStagedFirst>) {
    __trap();
    return;
  } else {
    wait_for_previous();
    static_assert(TPR <= 32 && NV % E == 0);
    constexpr int kAccesses = NV / E, kGroups = kStagedThreads / TPR;
    extern __shared__ uint4 staged[];
    __shared__ alignas(16) float scratch[32];  // of rows that more than a warp shares: none here

    const int width = static_cast<int>(a.width), first = threadIdx.x % TPR * E, group = threadIdx.x / TPR;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * a.block_rows, before = row * width;
    const int rows = static_cast<int>(a.rows - row < a.block_rows ? a.rows - row : a.block_rows), elements = rows * width;
    T* const x = reinterpret_cast<T*>(staged);               // becomes the sum, or out
    T* const residual = ADD ? x + a.block_rows * width : x;  // becomes out
    stage(x, static_cast<const T*>(a.x) + before, elements);
    if constexpr (ADD) stage(residual, static_cast<const T*>(a.residual) + before, elements);

    // Whether no thread of the warp has an element from this access on: asked for every fourth one.
    const auto none = [=](int v) { return v > 0 && v % 4 == 0 && v * TPR * E >= width; };
    // Element by element: the weight begins anywhere.
    const T* const weight = static_cast<const T*>(a.weight);
    Pack<T, 1> raw[kAccesses][E] = {};
#pragma unroll
    for (int v = 0; v < kAccesses; ++v)
#pragma unroll
      for (int j = 0; j < E; ++j)
        if (weight != nullptr && first + v * TPR * E < width) load<kCached>(raw[v][j], weight + first, v * TPR * E + j);
    wait_for_staged();
    float w[kAccesses][E];
#pragma unroll
    for (int v = 0; v < kAccesses; ++v)
#pragma unroll
      for (int j = 0; j < E; ++j) w[v][j] = weight != nullptr ? to_float<T>(raw[v][j].word[0]) + a.weight_offset : 1.0f;

    for (int base = 0; base < rows; base += kGroups) {  // as often for all threads of the block, as row_sum needs
      const int at = (base + group) * width + first;
      const int left = base + group < rows ? width - first : 0;
      Pack<T, E> pack[kAccesses] = {};
#pragma unroll
      for (int v = 0; v < kAccesses; ++v)
        if (v * TPR * E < left) load<kCached>(pack[v], x + at, v * TPR);
      if constexpr (ADD) {
#pragma unroll
        for (int v = 0; v < kAccesses && !none(v); ++v) {
          if (v * TPR * E < left) {
            Pack<T, E> other;
            load<kCached>(other, residual + at, v * TPR);
            add_residual(pack[v], other);
            store(x + at, v * TPR, pack[v]);
          }
        }
      }
      float f[kAccesses][E], squares[2] = {0.0f, 0.0f};
#pragma unroll
      for (int v = 0; v < kAccesses && !none(v); ++v) {
        unpack(pack[v], f[v]);
#pragma unroll
        for (int j = 0; j < E; ++j) squares[(v * E + j) % 2] = fmaf(f[v][j], f[v][j], squares[(v * E + j) % 2]);
      }
      float scale = rsqrtf(row_sum<TPR>(squares[0] + squares[1], scratch) * a.inverse_width + a.eps);
      if (sizeof(T) == 2 && a.round_first != 0) {
#pragma unroll
        for (int v = 0; v < kAccesses && !none(v); ++v) {
#pragma unroll
          for (int j = 0; j < E; ++j) f[v][j] *= scale;
          repack(pack[v], f[v]);
          unpack(pack[v], f[v]);
        }
        scale = 1.0f;
      }
#pragma unroll
      for (int v = 0; v < kAccesses && !none(v); ++v) {
#pragma unroll
        for (int j = 0; j < E; ++j) f[v][j] = f[v][j] * scale * w[v][j];
        repack(pack[v], f[v]);
        if (v * TPR * E < left) store(residual + at, v * TPR, pack[v]);
      }
    }
    __syncthreads();
    if constexpr (ADD) unstage(static_cast<T*>(a.sum) + before, x, elements);
    unstage(static_cast<T*>(a.out) + before, residual, elements);
  }
}

}  // namespace rmsnorm
