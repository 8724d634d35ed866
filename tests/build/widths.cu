// Global accesses of every width and kind. tests/cuda/build.rs holds what `kernels build` counts against nvdisasm.
#include <cstdint>
#include <cuda_pipeline.h>

struct alignas(32) Bytes32 {
  uint32_t part[8];
};

template <class T>
__global__ void copy(const T *__restrict__ from, T *to) {
  to[threadIdx.x] = from[threadIdx.x];
}
template __global__ void copy<uint8_t>(const uint8_t *__restrict__, uint8_t *);
template __global__ void copy<int16_t>(const int16_t *__restrict__, int16_t *);
template __global__ void copy<uint32_t>(const uint32_t *__restrict__, uint32_t *);
template __global__ void copy<uint2>(const uint2 *__restrict__, uint2 *);
template __global__ void copy<uint4>(const uint4 *__restrict__, uint4 *);
template __global__ void copy<Bytes32>(const Bytes32 *__restrict__, Bytes32 *);

// May alias, a constant place, a place known for the whole block, a predicate.
__global__ void places(const uint4 *from, uint4 *to, int n) {
  to[threadIdx.x] = from[threadIdx.x];
  to[threadIdx.x + 64] = from[1];
  to[blockIdx.x] = from[blockIdx.x];
  if (threadIdx.x < n) to[threadIdx.x + 128] = from[threadIdx.x + 128];
}

__global__ void cache_hints(const uint4 *from, uint4 *to, const uint2 *from8, uint2 *to8) {
  __stcs(to + threadIdx.x, __ldcs(from + threadIdx.x));
  __stcg(to8 + threadIdx.x, __ldcv(from8 + threadIdx.x));
  to[99] = __ldg(from + 5);
}

// Through pointers of which the compiler does not know the memory.
__global__ void generic(const uint4 *from, uint4 *to, int which) {
  __shared__ uint4 shared[64];
  shared[threadIdx.x] = from[0];
  __syncthreads();
  const uint4 *source = which ? from : shared;
  uint4 *target = which > 1 ? to : shared;
  target[threadIdx.x ^ 1] = source[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = shared[threadIdx.x ^ 3];
}

// What is no global load or store: atomics, local and shared memory.
__global__ void others(const int *from, int *to, int n) {
  __shared__ int count;
  int local[64];
  for (int i = 0; i < 64; i++) local[i] = from[i];
  for (int i = 0; i < n; i++) local[local[i] & 63] = i;
  atomicAdd(&count, local[n & 63]);
  __syncthreads();
  atomicAdd(to, count);
}

template <class T>
__global__ void async_copy(const T *from, T *to) {
  __shared__ T shared[64];
  __pipeline_memcpy_async(shared + threadIdx.x, from + threadIdx.x, sizeof(T));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  to[threadIdx.x] = shared[threadIdx.x ^ 1];
}
template __global__ void async_copy<uint32_t>(const uint32_t *, uint32_t *);
template __global__ void async_copy<uint2>(const uint2 *, uint2 *);
template __global__ void async_copy<uint4>(const uint4 *, uint4 *);

__global__ void bulk_copy(const uint4 *from, uint4 *to) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) uint4 shared[64];
  __shared__ uint64_t barrier;
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const auto bar = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(at),
      "l"(from), "r"(bar));
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%0], 1024, [%1];" ::"r"(at),
      "r"(bar));
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], 1024;" ::"l"(from));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(to), "r"(at));
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 1024;" ::"l"(to), "r"(at));
#endif
}

__global__ void tensor_copy(const void *map) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) uint4 shared[64];
  __shared__ uint64_t barrier;
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const auto bar = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];" ::"r"(
          at),
      "l"(map), "r"(0), "r"(bar));
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %1}];" ::"l"(map), "r"(0));
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %1}], [%2];" ::"l"(map), "r"(0),
               "r"(at));
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %1}], [%2];" ::"l"(map),
               "r"(0), "r"(at));
#endif
}

extern "C" int launch(float *out, const float *x, int64_t n, cudaStream_t stream) {
  places<<<1, 64, 0, stream>>>(reinterpret_cast<const uint4 *>(x), reinterpret_cast<uint4 *>(out), int(n));
  return cudaGetLastError();
}
