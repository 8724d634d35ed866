// out = softmax(scale * x) over the columns that the mask keeps, 0 elsewhere. A block takes a row at a time.
#include "pack.cuh"

// The largest score, and the sum of exp(scale * (score - largest)).
struct Sum {
  float most, sum;
};

// `factor` is that of an exponent of 2. An infinite `most` is not subtracted from itself.
__device__ inline Sum merged(Sum a, Sum b, float factor) {
  const float most = fmaxf(a.most, b.most);
  const auto part = [&](Sum s) { return s.most == most ? s.sum : s.sum * exp2f((s.most - most) * factor); };
  return {most, part(a) + part(b)};
}

template <typename T>
struct Rows {
  T* out;
  const T* x;
  const int32_t* mask;
  int64_t rows, width, out_stride, x_stride;
  float factor;
};

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) masked_softmax_rows(Rows<T> a) {
  __shared__ float largest[2][kThreads / 32], sums[2][kThreads / 32];
  int turn = 0;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
    const T* x = a.x + row * a.x_stride;
    const int32_t* mask = a.mask + row * a.width;
    Sum own = {-INFINITY, 0.0f};
    for (int64_t i = threadIdx.x * N; i < a.width; i += kThreads * N) {
      const auto scores = load<N>(x, i);
      const auto keep = load<N>(mask, i);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (keep.v[j] != 0) own = merged(own, {to_float(scores.v[j]), 1.0f}, a.factor);
      }
    }
    const float most = reduce(own.most, largest[turn], [](float v, float w) { return fmaxf(v, w); });
    const float part = own.most == most ? own.sum : own.sum * exp2f((own.most - most) * a.factor);
    const float sum = reduce(part, sums[turn], [](float v, float w) { return v + w; });
    // As torch: a row whose largest score is infinite is NaN where it is kept.
    const float inverse = isinf(most) ? NAN : 1.0f / sum;
    T* out = a.out + row * a.out_stride;
    for (int64_t i = threadIdx.x * N; i < a.width; i += kThreads * N) {
      const auto scores = load<N>(x, i);
      const auto keep = load<N>(mask, i);
      Pack<T, N> result;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float weight = exp2f((to_float(scores.v[j]) - most) * a.factor) * inverse;
        from_float(result.v[j], keep.v[j] != 0 ? weight : 0.0f);
      }
      store(out, i, result);
    }
  }
}

template <typename T>
int launch(Rows<T> a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(a.rows < 1 << 20 ? a.rows : 1 << 20);
  const bool wide = a.width % kWide<T> == 0 && is_wide<T>(a.x, a.x_stride) && is_wide<T>(a.out, a.out_stride) &&
                    is_wide<int32_t>(a.mask, a.width);
  if (wide) {
    masked_softmax_rows<T, kWide<T>><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    masked_softmax_rows<T, 1><<<blocks, kThreads, 0, stream>>>(a);
  }
  return cudaGetLastError();
}

extern "C" int masked_softmax_launch(void* out, const void* x, const void* mask, int64_t rows, int64_t width, int64_t out_stride,
                                     int64_t x_stride, float scale, int dtype, cudaStream_t stream) {
  const bool known = dtype == 0 || dtype == 2;
  if (rows < 0 || width < 0 || out_stride < width || x_stride < width || !(scale > 0.0f) || !known) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  const float factor = scale * 1.44269504f;
  const auto* kept = static_cast<const int32_t*>(mask);
  if (dtype == 0) {
    return launch<float>({static_cast<float*>(out), static_cast<const float*>(x), kept, rows, width, out_stride, x_stride, factor},
                         stream);
  }
  return launch<__nv_bfloat16>({static_cast<__nv_bfloat16*>(out), static_cast<const __nv_bfloat16*>(x), kept, rows, width, out_stride,
                                x_stride, factor},
                               stream);
}
