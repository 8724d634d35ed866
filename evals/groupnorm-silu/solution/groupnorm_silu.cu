// out = silu(group_norm(x)). On sm_90 and later a cluster of blocks takes a group of an image and holds it in registers, so that it is
// read once. Elsewhere, and for groups that no cluster holds, a block takes a group and reads it twice: blocks are large, so that what
// they have read is still in L2 when they read it again.
#include <cooperative_groups.h>

#include <utility>

#include "pack.cuh"

constexpr int kBlock = 512;
constexpr int kHeld = 8;  // packs of a thread that stay in registers

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
  // 2^32 by the packs of a channel, rounded up: exact for a pack's channel while their product is below 2^32.
  uint64_t packs_inverse;
};

// The moments of a pack: its mean, then the distances from it.
template <typename T, int N>
__device__ inline Moments of(const Pack<T, N>& pack) {
  Moments few = {static_cast<float>(N), 0.0f, 0.0f};
#pragma unroll
  for (int j = 0; j < N; ++j) few.mean += to_float(pack.v[j]) * (1.0f / N);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float apart = to_float(pack.v[j]) - few.mean;
    few.squares += apart * apart;
  }
  return few;
}

// On sm_90, whose memory is fast beside its arithmetic, without the instructions by which __expf and a division care for subnormal
// numbers.
__device__ inline float silu(float v) {
#if __CUDA_ARCH__ >= 900
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v * -1.4426950409f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
  return v * inverse;
#else
  return v / (1.0f + __expf(-v));
#endif
}

// Writes the pack that begins at element i of a group whose moments are `all`, and is of this channel of it.
template <typename T, int N>
__device__ inline void finish(const Groups<T>& a, Moments all, int64_t group, unsigned channel, int64_t i, Pack<T, N> pack) {
  const int length = a.depth * a.spatial;
  const float scale = rsqrtf(all.squares / static_cast<float>(length) + a.eps);  // the same for all packs: computed once
  const int64_t place = group % a.groups * a.depth + channel;
  const float weight = to_float(a.weight[place]) * scale, bias = to_float(a.bias[place]);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float v = (to_float(pack.v[j]) - all.mean) * weight + bias;
    from_float(pack.v[j], silu(v));
  }
  store(a.out + group * length, i, pack);
}

template <typename T, int N>
__global__ void __launch_bounds__(kBlock) groupnorm_silu_groups(Groups<T> a) {
  const int length = a.depth * a.spatial;
  const T* x = a.x + blockIdx.x * static_cast<int64_t>(length);
  Moments own = {0.0f, 0.0f, 0.0f};
  for (int64_t i = threadIdx.x * N; i < length; i += kBlock * N) own = merged(own, of(load<N>(x, i)));
  const Moments all = merged_in_block(own);
  for (int64_t i = threadIdx.x * N; i < length; i += kBlock * N) {
    finish(a, all, blockIdx.x, static_cast<unsigned>(i) / static_cast<unsigned>(a.spatial), i, load<N>(x, i));
  }
}

// Emits nothing: the compiler converts the pack again behind it, instead of keeping its elements as fp32 across a reduction.
template <typename T, int N>
__device__ inline void keep_packed(Pack<T, N>& pack) {
  auto& words = reinterpret_cast<uint32_t (&)[4]>(pack);
#pragma unroll
  for (uint32_t& word : words) asm volatile("" : "+r"(word));
}

// Compiled for older architectures as well, but launched only where its code is for sm_90 or later.
template <typename T, int PARTS>
__global__ void __launch_bounds__(kThreads, 4) groupnorm_silu_clusters(Groups<T> a) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = kWide<T>;
  __shared__ float scratch[2][kThreads / 32];
  __shared__ Moments parts[PARTS];
  const auto cluster = cooperative_groups::this_cluster();
  const auto add = [](float v, float w) { return v + w; };
  auto started = cluster.barrier_arrive();
  const int64_t group = blockIdx.x / PARTS;
  const int part = blockIdx.x % PARTS, length = a.depth * a.spatial, packs = length / N, share = (packs + PARTS - 1) / PARTS;
  const int begin = part * share, end = min(packs, begin + share), first = begin + static_cast<int>(threadIdx.x);
  const T* x = a.x + group * length;
  Pack<T, N> held[kHeld] = {};  // zeros behind the end
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (first + k * kThreads < end) held[k] = load<N>(x, static_cast<int64_t>(first + k * kThreads) * N);
  }
  // The block's mean, and the distances from it.
  Moments own = {static_cast<float>(end > begin ? (end - begin) * N : 0), 0.0f, 0.0f};
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
#pragma unroll
    for (int j = 0; j < N; ++j) own.mean += to_float(held[k].v[j]);
  }
  own.mean = reduce(own.mean, scratch[0], add) / fmaxf(own.count, 1.0f);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    keep_packed(held[k]);
    float squares = 0.0f;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float apart = to_float(held[k].v[j]) - own.mean;
      squares += apart * apart;
    }
    if (first + k * kThreads < end) own.squares += squares;
  }
  own.squares = reduce(own.squares, scratch[1], add);
  cluster.barrier_wait(std::move(started));  // all blocks run, so that their memory may be written
  if (threadIdx.x < PARTS) *cluster.map_shared_rank(&parts[part], threadIdx.x) = own;
  cluster.sync();
  Moments all = parts[0];
#pragma unroll
  for (int p = 1; p < PARTS; ++p) all = merged(all, parts[p]);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    keep_packed(held[k]);
    const int pack = first + k * kThreads;
    const auto channel = static_cast<unsigned>(static_cast<uint64_t>(static_cast<unsigned>(pack)) * a.packs_inverse >> 32);
    if (pack < end) finish(a, all, group, channel, static_cast<int64_t>(pack) * N, held[k]);
  }
#endif
}

template <typename T, int PARTS>
int launch_clusters(const Groups<T>& a, int64_t groups, cudaStream_t stream) {
  cudaLaunchAttribute size = {};
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim = {PARTS, 1, 1};
  const cudaLaunchConfig_t config = {dim3(static_cast<unsigned>(groups * PARTS)), dim3(kThreads), 0, stream, &size, 1};
  return cudaLaunchKernelEx(&config, groupnorm_silu_clusters<T, PARTS>, a);
}

// Whether the code that the driver chose knows clusters: it may be older than the card.
template <typename T>
bool has_clusters() {
  cudaFuncAttributes code;
  return cudaFuncGetAttributes(&code, groupnorm_silu_clusters<T, 1>) == cudaSuccess && code.binaryVersion >= 90 && code.ptxVersion >= 90;
}

template <typename T>
int launch(void* out, const void* x, const void* weight, const void* bias, int64_t blocks, Groups<T> a, cudaStream_t stream) {
  a.out = static_cast<T*>(out), a.x = static_cast<const T*>(x);
  a.weight = static_cast<const T*>(weight), a.bias = static_cast<const T*>(bias);
  if (is_wide<T>(x, a.spatial) && is_wide<T>(out, a.spatial)) {
    const int64_t packs = static_cast<int64_t>(a.depth) * a.spatial / kWide<T>, held = kHeld * kThreads;
    a.packs_inverse = (1ull << 32) / static_cast<unsigned>(a.spatial / kWide<T>) + 1;
    if (packs <= 8 * held && blocks <= INT32_MAX / 8 && has_clusters<T>()) {
      if (packs <= held) return launch_clusters<T, 1>(a, blocks, stream);
      if (packs <= 2 * held) return launch_clusters<T, 2>(a, blocks, stream);
      if (packs <= 4 * held) return launch_clusters<T, 4>(a, blocks, stream);
      return launch_clusters<T, 8>(a, blocks, stream);
    }
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
  if (dtype == 0) return launch<float>(out, x, weight, bias, blocks, {nullptr, nullptr, nullptr, nullptr, groups, deep, wide, eps, 0}, stream);
  return launch<__nv_bfloat16>(out, x, weight, bias, blocks, {nullptr, nullptr, nullptr, nullptr, groups, deep, wide, eps, 0}, stream);
}
