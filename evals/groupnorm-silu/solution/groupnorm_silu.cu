// out = silu(group_norm(x)). A block takes a group of an image, which lies in one piece, and reads it twice: blocks are large, so
// that what they have read is still in L2 when they read it again.
#include "pack.cuh"

constexpr int kBlock = 512;

// Of values: how many, their mean, and the sum of squared distances from it. Merged as Chan et al. do, so that values far from zero
// lose nothing.
struct Moments {
  float count, mean, squares;
};

__device__ inline Moments merged(Moments a, Moments b) {
  const float count = a.count + b.count, apart = b.mean - a.mean;
  const float share = count > 0.0f ? b.count / count : 0.0f;
  return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
}

__device__ inline Moments merged_in_block(Moments own) {
  __shared__ Moments parts[kBlock / 32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    own = merged(own, {__shfl_xor_sync(0xffffffffu, own.count, d), __shfl_xor_sync(0xffffffffu, own.mean, d),
                       __shfl_xor_sync(0xffffffffu, own.squares, d)});
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
  __syncthreads();
  own = parts[0];
  for (int w = 1; w < kBlock / 32; ++w) own = merged(own, parts[w]);
  return own;
}

template <typename T>
struct Groups {
  T* out;
  const T *x, *weight, *bias;
  int64_t groups;
  int depth, spatial;  // depth * spatial fits
  float eps;
};

template <typename T, int N>
__global__ void __launch_bounds__(kBlock) groupnorm_silu_groups(Groups<T> a) {
  const int length = a.depth * a.spatial;
  const T* x = a.x + blockIdx.x * static_cast<int64_t>(length);
  T* out = a.out + blockIdx.x * static_cast<int64_t>(length);
  Moments own = {0.0f, 0.0f, 0.0f};
  for (int64_t i = threadIdx.x * N; i < length; i += kBlock * N) {
    const auto pack = load<N>(x, i);
    Moments few = {static_cast<float>(N), 0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < N; ++j) few.mean += to_float(pack.v[j]) * (1.0f / N);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float apart = to_float(pack.v[j]) - few.mean;
      few.squares += apart * apart;
    }
    own = merged(own, few);
  }
  const Moments all = merged_in_block(own);
  const float scale = rsqrtf(all.squares / static_cast<float>(length) + a.eps);
  const int64_t first = blockIdx.x % a.groups * a.depth;
  for (int64_t i = threadIdx.x * N; i < length; i += kBlock * N) {
    const int64_t channel = first + static_cast<unsigned>(i) / static_cast<unsigned>(a.spatial);  // all of a pack are of one
    const float weight = to_float(a.weight[channel]) * scale, bias = to_float(a.bias[channel]);
    auto pack = load<N>(x, i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float v = (to_float(pack.v[j]) - all.mean) * weight + bias;
      from_float(pack.v[j], v / (1.0f + __expf(-v)));
    }
    store(out, i, pack);
  }
}

template <typename T>
int launch(void* out, const void* x, const void* weight, const void* bias, int64_t blocks, Groups<T> a, cudaStream_t stream) {
  a.out = static_cast<T*>(out), a.x = static_cast<const T*>(x);
  a.weight = static_cast<const T*>(weight), a.bias = static_cast<const T*>(bias);
  if (is_wide<T>(x, a.spatial) && is_wide<T>(out, a.spatial)) {
    groupnorm_silu_groups<T, kWide<T>><<<static_cast<unsigned>(blocks), kBlock, 0, stream>>>(a);
  } else {
    groupnorm_silu_groups<T, 1><<<static_cast<unsigned>(blocks), kBlock, 0, stream>>>(a);
  }
  return cudaGetLastError();
}

extern "C" int groupnorm_silu_launch(void* out, const void* x, const void* weight, const void* bias, int64_t images, int64_t groups,
                                     int64_t depth, int64_t spatial, float eps, int dtype, cudaStream_t stream) {
  if (images < 0 || groups < 0 || depth < 0 || spatial < 0 || (dtype != 0 && dtype != 2)) return cudaErrorInvalidValue;
  if (images == 0 || groups == 0 || depth == 0 || spatial == 0) return cudaSuccess;
  const int64_t most = INT32_MAX / 2;
  if (images > most / groups || depth > most / spatial) return cudaErrorInvalidValue;
  const int deep = static_cast<int>(depth), wide = static_cast<int>(spatial);
  const int64_t blocks = images * groups;
  if (dtype == 0) return launch<float>(out, x, weight, bias, blocks, {nullptr, nullptr, nullptr, nullptr, groups, deep, wide, eps}, stream);
  return launch<__nv_bfloat16>(out, x, weight, bias, blocks, {nullptr, nullptr, nullptr, nullptr, groups, deep, wide, eps}, stream);
}
