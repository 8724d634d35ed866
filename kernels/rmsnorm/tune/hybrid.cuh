// Candidates for the widest rows: a row kept in registers and shared memory together, and rows read twice.
#pragma once
#include "../kernel_src/rms_norm.cuh"

namespace rmsnorm {

enum class Hint { kNone, kEvictFirst };

__device__ __forceinline__ uint64_t evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
template <Hint H, typename T, int N>
__device__ __forceinline__ void load(Pack<T, N>& pack, const T* p, int64_t i) {
  if constexpr (H == Hint::kNone) {
    load<kCached>(pack, p, i);
  } else {
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(pack.word[0]), "=r"(pack.word[1]), "=r"(pack.word[2]), "=r"(pack.word[3])
                 : "l"(p + i * N), "l"(evict_first())
                 : "memory");
  }
}
template <Hint H, typename T, int N>
__device__ __forceinline__ void store(T* p, int64_t i, const Pack<T, N>& pack) {
  if constexpr (H == Hint::kNone) {
    store(p, i, pack);
  } else {
    asm volatile("st.global.L1::no_allocate.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p + i * N),
                 "r"(pack.word[0]), "r"(pack.word[1]), "r"(pack.word[2]), "r"(pack.word[3]), "l"(evict_first())
                 : "memory");
  }
}

// NS packs a thread lie in shared memory, each written and read by its own thread alone; NV more in registers.
template <typename T, int N, int TPR, int NV, int NS, int BLOCKS, bool ADD>
__global__ void __launch_bounds__(TPR, BLOCKS) rms_norm_hybrid(const RowArguments a) {
  constexpr int kGroup = 4;
  static_assert(NS % 2 == 0, "");
  __shared__ alignas(16) float scratch[32];
  extern __shared__ uint4 shared[];
  const int first = threadIdx.x, packs = static_cast<int>(a.width / N);
  const int64_t row = blockIdx.x;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride;
  T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
  const T* weight_row = static_cast<const T*>(a.weight);
  const uint32_t slot = static_cast<uint32_t>(__cvta_generic_to_shared(shared + threadIdx.x));

  // The packs in shared memory are the row's first ones: their copies need no registers and go first.
#pragma unroll
  for (int v = 0; v < NS; ++v)
    if (first + v * TPR < packs)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot + v * TPR * 16),
                   "l"(x_row + (first + v * TPR) * N)
                   : "memory");
  Pack<T, N> x[NV];
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (first + (NS + v) * TPR < packs) load<kCached>(x[v], x_row, first + (NS + v) * TPR);
  float squares[2] = {0.0f, 0.0f};
  if constexpr (ADD) {
#pragma unroll
    for (int g = 0; g < NV; g += 2) {
      Pack<T, N> r[2];
#pragma unroll
      for (int v = g; v < g + 2 && v < NV; ++v)
        if (first + (NS + v) * TPR < packs) load<kCached>(r[v - g], residual_row, first + (NS + v) * TPR);
#pragma unroll
      for (int v = g; v < g + 2 && v < NV; ++v)
        if (first + (NS + v) * TPR < packs) {
          add_residual(x[v], r[v - g]);
          store(sum_row, first + (NS + v) * TPR, x[v]);
          keep_packed(x[v]);
        }
    }
  }
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (first + (NS + v) * TPR < packs) add_squares(x[v], squares);
#pragma unroll
  for (int v = 0; v < NV; ++v) keep_packed(x[v]);
  asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
  for (int g = 0; g < NS; g += kGroup) {
    Pack<T, N> r[kGroup];
    if constexpr (ADD) {
#pragma unroll
      for (int v = g; v < g + kGroup && v < NS; ++v)
        if (first + v * TPR < packs) load<kCached>(r[v - g], residual_row, first + v * TPR);
    }
#pragma unroll
    for (int v = g; v < g + kGroup && v < NS; ++v) {
      if (first + v * TPR < packs) {
        Pack<T, N> p;
        const uint4 u = shared[v * TPR + threadIdx.x];
        p.word[0] = u.x, p.word[1] = u.y, p.word[2] = u.z, p.word[3] = u.w;
        if constexpr (ADD) {
          add_residual(p, r[v - g]);
          store(sum_row, first + v * TPR, p);
          shared[v * TPR + threadIdx.x] = make_uint4(p.word[0], p.word[1], p.word[2], p.word[3]);
        }
        add_squares(p, squares);
      }
    }
  }
  const float scale = rsqrtf(row_sum<TPR>(squares[0] + squares[1], scratch) * a.inverse_width + a.eps);
#pragma unroll
  for (int g = 0; g < NV; g += 2) {
    Pack<T, N> w[2];
#pragma unroll
    for (int v = g; v < g + 2 && v < NV; ++v)
      if (a.weight != nullptr && first + (NS + v) * TPR < packs) load<kCached>(w[v - g], weight_row, first + (NS + v) * TPR);
#pragma unroll
    for (int v = g; v < g + 2 && v < NV; ++v)
      if (first + (NS + v) * TPR < packs) {
        normalize(x[v], w[v - g], scale, a);
        store(out_row, first + (NS + v) * TPR, x[v]);
      }
  }
#pragma unroll
  for (int g = 0; g < NS; g += kGroup) {
    Pack<T, N> w[kGroup];
#pragma unroll
    for (int v = g; v < g + kGroup && v < NS; ++v)
      if (a.weight != nullptr && first + v * TPR < packs) load<kCached>(w[v - g], weight_row, first + v * TPR);
#pragma unroll
    for (int v = g; v < g + kGroup && v < NS; ++v) {
      if (first + v * TPR < packs) {
        Pack<T, N> p;
        const uint4 u = shared[v * TPR + threadIdx.x];
        p.word[0] = u.x, p.word[1] = u.y, p.word[2] = u.z, p.word[3] = u.w;
        normalize(p, w[v - g], scale, a);
        store(out_row, first + v * TPR, p);
      }
    }
  }
}

// Rows read twice; REVERSE: the second time from the end, where the caches are freshest.
template <typename T, int N, int THREADS, int GROUP, bool ADD, Hint HINT, bool REVERSE>
__global__ void __launch_bounds__(THREADS) rms_norm_twice(const RowArguments a) {
  __shared__ alignas(16) float scratch[32];
  const int64_t row = blockIdx.x, packs = a.width / N;
  const T* x_row = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* residual_row = static_cast<const T*>(a.residual) + row * a.residual_stride;
  T* sum_row = static_cast<T*>(a.sum) + row * a.sum_stride;
  T* out_row = static_cast<T*>(a.out) + row * a.out_stride;
  Pack<T, N> x[GROUP], other[GROUP];
  float squares[2] = {0.0f, 0.0f};
  for (int64_t first = threadIdx.x; first < packs; first += GROUP * THREADS) {
#pragma unroll
    for (int v = 0; v < GROUP; ++v) {
      const int64_t i = first + v * THREADS;
      if (i < packs) {
        load<kCached>(x[v], x_row, i);
        if constexpr (ADD) load<kCached>(other[v], residual_row, i);
      }
    }
#pragma unroll
    for (int v = 0; v < GROUP; ++v) {
      const int64_t i = first + v * THREADS;
      if (i < packs) {
        if constexpr (ADD) {
          add_residual(x[v], other[v]);
          store(sum_row, i, x[v]);
        }
        add_squares(x[v], squares);
      }
    }
  }
  const float scale = rsqrtf(row_sum<THREADS>(squares[0] + squares[1], scratch) * a.inverse_width + a.eps);
  const int64_t steps = (packs + GROUP * THREADS - 1) / (GROUP * THREADS);
  for (int64_t t = 0; t < steps; ++t) {
    const int64_t first = (REVERSE ? steps - 1 - t : t) * GROUP * THREADS + threadIdx.x;
#pragma unroll
    for (int v = 0; v < GROUP; ++v) {
      const int64_t i = first + v * THREADS;
      if (i < packs) {
        load<HINT>(x[v], ADD ? sum_row : x_row, i);
        if (a.weight != nullptr) load<kCached>(other[v], static_cast<const T*>(a.weight), i);
      }
    }
#pragma unroll
    for (int v = 0; v < GROUP; ++v) {
      const int64_t i = first + v * THREADS;
      if (i < packs) {
        normalize(x[v], other[v], scale, a);
        store<HINT>(out_row, i, x[v]);
      }
    }
  }
}

}  // namespace rmsnorm
