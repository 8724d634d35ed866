// out = int8(x / scale), scale = largest |x| of the row / 127. A block takes a row. It reads 16 bytes at a time from the first element of
// the row that is aligned for that; the few before it and behind the last whole pack have a thread each. What fits stays in registers,
// longer rows are read a second time, from L2. A pack is written as its place in the output allows.
#include "pack.cuh"

constexpr int N = kWide<__nv_bfloat16>;
constexpr int kHeld = 3;  // packs of a thread that stay in registers

// v / scale is rounded correctly: a product with the reciprocal, and one step with the exact remainder. Where the reciprocal of a tiny
// scale overflows, it is divided.
__device__ inline int8_t quantised(float v, float scale) {
  if (scale == 0.0f) return 0;
  const float inverse = __frcp_rn(scale), q = v * inverse;
  const float quotient = scale < 0x1p-100f ? __fdiv_rn(v, scale) : fmaf(fmaf(-q, scale, v), inverse, q);
  return static_cast<int8_t>(__float2int_rn(quotient));
}

struct Rows {
  int8_t* out;
  float* scale;
  const __nv_bfloat16* x;
  int64_t rows, width, out_stride, x_stride;
};

__device__ inline void write(int8_t* to, const Pack<__nv_bfloat16, N>& pack, float unit) {
  Pack<int8_t, N> result;
#pragma unroll
  for (int j = 0; j < N; ++j) result.v[j] = quantised(to_float(pack.v[j]), unit);
  const auto place = reinterpret_cast<uintptr_t>(to);
  if (place % N == 0) {
    store(to, 0, result);
  } else if (place % 4 == 0) {
#pragma unroll
    for (int j = 0; j < N; j += 4) store<4>(to, j, reinterpret_cast<const Pack<int8_t, 4>&>(result.v[j]));
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) to[j] = result.v[j];
  }
}

__device__ inline float largest_of(float most, const Pack<__nv_bfloat16, N>& pack) {
#pragma unroll
  for (int j = 0; j < N; ++j) most = fmaxf(most, fabsf(to_float(pack.v[j])));
  return most;
}

__global__ void __launch_bounds__(kThreads) quant_rows_kernel(Rows a) {
  __shared__ float largest[2][kThreads / 32];
  int turn = 0;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
    const __nv_bfloat16* x = a.x + row * a.x_stride;
    int8_t* out = a.out + row * a.out_stride;
    // Elements before the first aligned one, whole packs, and the elements that are in none: 14 at most.
    const int64_t unaligned = -(reinterpret_cast<uintptr_t>(x) / sizeof(*x)) % N, head = unaligned < a.width ? unaligned : a.width;
    const int64_t packs = (a.width - head) / N, rest = a.width - packs * N;
    const int64_t own = threadIdx.x < head ? threadIdx.x : threadIdx.x + packs * N;
    Pack<__nv_bfloat16, N> held[kHeld];
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int64_t i = threadIdx.x + k * kThreads;
      if (i < packs) held[k] = load<N>(x + head, i * N);
    }
    const float single = threadIdx.x < rest ? to_float(x[own]) : 0.0f;
    float most = fabsf(single);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (threadIdx.x + k * kThreads < packs) most = largest_of(most, held[k]);
    }
    for (int64_t i = threadIdx.x + kHeld * kThreads; i < packs; i += kThreads) most = largest_of(most, load<N>(x + head, i * N));
    most = reduce(most, largest[turn], [](float v, float w) { return fmaxf(v, w); });
    const float unit = most / 127.0f;
    if (threadIdx.x == 0) a.scale[row] = unit;
    if (threadIdx.x < rest) out[own] = quantised(single, unit);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int64_t i = threadIdx.x + k * kThreads;
      if (i < packs) write(out + head + i * N, held[k], unit);
    }
    for (int64_t i = threadIdx.x + kHeld * kThreads; i < packs; i += kThreads) write(out + head + i * N, load<N>(x + head, i * N), unit);
  }
}

extern "C" int quant_rows_launch(void* out, void* scale, const void* x, int64_t rows, int64_t width, int64_t out_stride, int64_t x_stride,
                                 cudaStream_t stream) {
  if (rows < 0 || width < 0 || out_stride < width || x_stride < width) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(rows < 1 << 20 ? rows : 1 << 20);
  const Rows a = {static_cast<int8_t*>(out), static_cast<float*>(scale), static_cast<const __nv_bfloat16*>(x), rows, width, out_stride, x_stride};
  quant_rows_kernel<<<blocks, kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}
