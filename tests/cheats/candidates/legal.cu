// Difficult, and within the rules: what an honest harness must not refuse.
#include <cooperative_groups.h>
#include <stdlib.h>

#if defined(TENSOR_MAP)
#include <cuda.h>
#endif

#include "rms_norm.cuh"

namespace cg = cooperative_groups;

// A whole launch configuration with one attribute.
[[maybe_unused]] static cudaLaunchConfig_t config_of(const Call& call, unsigned blocks,
                                                     cudaLaunchAttribute* attribute) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(THREADS);
  config.stream = call.stream;
  config.attrs = attribute;
  config.numAttrs = attribute != nullptr ? 1 : 0;
  return config;
}

#if defined(TWO_KERNELS)
// The scales in the module's own memory, between two kernels.
__device__ float scales[1 << 16];
__global__ void scales_kernel(Rows<float> a) {
  const float scale = row_scale(a, blockIdx.x);
  if (threadIdx.x == 0) scales[blockIdx.x % (1 << 16)] = scale;
}
__global__ void apply_kernel(Rows<float> a) {
  const float scale = scales[blockIdx.x % (1 << 16)];
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[blockIdx.x * a.out_stride + k] = normed(a, blockIdx.x, k, scale);
}
static int launch(const Call& call) {
  const int failed = launch_rows(scales_kernel, call);
  return failed != 0 ? failed : launch_rows(apply_kernel, call);
}

#elif defined(CLUSTER)
// Two blocks a row, their sums through distributed shared memory; more shared memory than a kernel gets
// unasked.
__global__ void cluster_kernel(Rows<float> a) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ float sums[];
  const auto cluster = cg::this_cluster();
  const int64_t row = blockIdx.x / 2;
  float squares = 0;
  for (int64_t k = blockIdx.x % 2 * THREADS + threadIdx.x; k < a.width; k += 2 * THREADS)
    squares += a.x[row * a.x_stride + k] * a.x[row * a.x_stride + k];
  squares = block_sum(squares);
  if (threadIdx.x == 0) sums[0] = squares;
  cluster.sync();
  const float sum = *cluster.map_shared_rank(sums, 0) + *cluster.map_shared_rank(sums, 1);
  cluster.sync();
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(a.width) + a.eps);
  for (int64_t k = blockIdx.x % 2 * THREADS + threadIdx.x; k < a.width; k += 2 * THREADS)
    a.out[row * a.out_stride + k] = normed(a, row, k, scale);
#else
  if (blockIdx.x % 2 == 0) norm_row(a, blockIdx.x / 2);
#endif
}
static int launch(const Call& call) {
  constexpr int BYTES = 60 * 1024;
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaFuncSetAttribute(cluster_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 2;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = config_of(call, static_cast<unsigned>(2 * call.rows), &attribute);
  config.dynamicSmemBytes = BYTES;
  if (major < 9) config.numAttrs = 0;
  return static_cast<int>(cudaLaunchKernelEx(&config, cluster_kernel, rows_of<float>(call)));
}

#elif defined(COOPERATIVE)
// All blocks on the card at once, with a barrier through the whole grid.
__device__ float scales[1 << 16];
__global__ void cooperative_kernel(Rows<float> a) {
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const float scale = row_scale(a, row);
    if (threadIdx.x == 0) scales[row % (1 << 16)] = scale;
  }
  cg::this_grid().sync();
  for (int64_t row = gridDim.x - 1 - blockIdx.x; row < a.rows; row += gridDim.x)
    for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
      a.out[row * a.out_stride + k] =
          normed(a, row, k, *const_cast<volatile float*>(&scales[row % (1 << 16)]));
}
static int launch(const Call& call) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  const cudaLaunchConfig_t config = config_of(call, 16, &attribute);
  return static_cast<int>(cudaLaunchKernelEx(&config, cooperative_kernel, rows_of<float>(call)));
}

#elif defined(TENSOR_MAP)
// Rows through the tensor memory accelerator, described by a map that is a kernel's argument.
constexpr int BOX = 256;
__global__ void tensor_map_kernel(Rows<float> a, const __grid_constant__ CUtensorMap map) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) float box[BOX];
  __shared__ alignas(8) uint64_t barrier;
  const unsigned box_at = static_cast<unsigned>(__cvta_generic_to_shared(box));
  const unsigned barrier_at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  const int row = blockIdx.x;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_at));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  unsigned phase = 0;
  float squares = 0;
  for (int pass = 0; pass < 2; ++pass) {
    float scale = 0;
    if (pass == 1)
      scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(a.width) + a.eps);
    for (int at = 0; at < a.width; at += BOX) {
      if (threadIdx.x == 0) {
        asm volatile("fence.proxy.async.shared::cta;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_at),
                     "r"(BOX * 4)
                     : "memory");
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3}], [%4];" ::"r"(box_at),
            "l"(&map), "r"(at), "r"(row), "r"(barrier_at)
            : "memory");
      }
      unsigned done = 0;
      while (done == 0)
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
            "selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(barrier_at), "r"(phase)
            : "memory");
      phase ^= 1;
      const int64_t k = at + threadIdx.x;
      if (threadIdx.x < BOX && k < a.width) {
        const float x = box[threadIdx.x];
        if (pass == 0) {
          squares += x * x;
        } else {
          const float weight = a.weight != nullptr ? a.weight[k] + a.weight_offset : 1.0f;
          a.out[row * a.out_stride + k] = x * scale * weight;
        }
      }
      __syncthreads();
    }
  }
#else
  (void)map;
  norm_row(a, blockIdx.x);
#endif
}
static int launch(const Call& call) {
  const bool aligned =
      reinterpret_cast<uintptr_t>(call.x) % 16 == 0 && call.x_stride * 4 % 16 == 0;
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (!aligned || major < 9) return launch_rows(rms_norm_kernel<float>, call);
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                       &result) != cudaSuccess)
    return 1;
  const cuuint64_t size[] = {static_cast<cuuint64_t>(call.width),
                             static_cast<cuuint64_t>(call.rows)};
  const cuuint64_t stride[] = {static_cast<cuuint64_t>(call.x_stride) * 4};
  const cuuint32_t box[] = {BOX, 1}, step[] = {1, 1};
  CUtensorMap map;
  const CUresult failed = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<void*>(call.x), size, stride, box, step,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (failed != CUDA_SUCCESS) return static_cast<int>(failed);
  tensor_map_kernel<<<static_cast<unsigned>(call.rows), THREADS, 0, call.stream>>>(
      rows_of<float>(call), map);
  return static_cast<int>(cudaGetLastError());
}

#elif defined(ASKS_THE_CARD)
// What the card is, asked once and remembered; as many blocks as fit, each with several rows.
__global__ void several_kernel(Rows<float> a) {
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) norm_row(a, row);
}
static int launch(const Call& call) {
  static const int blocks = [] {
    int device = 0, multiprocessors = 0, each = 0;
    cudaGetDevice(&device);
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, device);
    multiprocessors = properties.multiProcessorCount;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, several_kernel, THREADS, 0);
    return multiprocessors * each;
  }();
  if (blocks == 0) return 1;
  several_kernel<<<static_cast<unsigned>(blocks < call.rows ? blocks : call.rows), THREADS, 0,
                   call.stream>>>(rows_of<float>(call));
  return static_cast<int>(cudaGetLastError());
}

#elif defined(LARGE_ARGUMENT)
// An argument of 3,000 bytes, one row's factor of which is used.
struct Factors { float of[750]; };
__global__ void large_kernel(Rows<float> a, const Factors factors) {
  const float scale = row_scale(a, blockIdx.x) * factors.of[blockIdx.x % 750];
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[blockIdx.x * a.out_stride + k] = normed(a, blockIdx.x, k, scale);
}
static int launch(const Call& call) {
  Factors factors;
  for (float& factor : factors.of) factor = 1;
  large_kernel<<<static_cast<unsigned>(call.rows), THREADS, 0, call.stream>>>(rows_of<float>(call),
                                                                             factors);
  return static_cast<int>(cudaGetLastError());
}

#elif defined(CONSTANT_TABLE)
// Constant and device memory that the machine code itself fills.
__constant__ float ones[4] = {1, 1, 1, 1};
__device__ float twos[4] = {2, 2, 2, 2};
__global__ void table_kernel(Rows<float> a) {
  const float scale = row_scale(a, blockIdx.x) * ones[blockIdx.x % 4] * twos[blockIdx.x % 4] / 2;
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[blockIdx.x * a.out_stride + k] = normed(a, blockIdx.x, k, scale);
}
static int launch(const Call& call) { return launch_rows(table_kernel, call); }

#elif defined(THREE_DIMENSIONS)
// A grid and a block with all three dimensions.
__global__ void box_kernel(Rows<float> a) {
  const int64_t row = blockIdx.x + static_cast<int64_t>(gridDim.x) * (blockIdx.y + gridDim.y * blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  if (row >= a.rows) return;
  __shared__ float sum;
  if (thread == 0) {
    sum = 0;
    for (int64_t k = 0; k < a.width; ++k)
      sum += a.x[row * a.x_stride + k] * a.x[row * a.x_stride + k];
  }
  __syncthreads();
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(a.width) + a.eps);
  for (int64_t k = thread; k < a.width; k += 64) a.out[row * a.out_stride + k] = normed(a, row, k, scale);
}
static int launch(const Call& call) {
  const unsigned side = static_cast<unsigned>((call.rows + 5) / 6);
  box_kernel<<<dim3(side, 2, 3), dim3(8, 4, 2), 0, call.stream>>>(rows_of<float>(call));
  return static_cast<int>(cudaGetLastError());
}

#elif defined(READS_THE_ENVIRONMENT)
// A switch for people who debug; memory of the launcher's own.
static int launch(const Call& call) {
  const char* choice = getenv("RMS_NORM_VARIANT");
  void* scratch = malloc(1 << 20);
  if (scratch == nullptr) return 1;
  free(scratch);
  cudaFuncSetAttribute(rms_norm_kernel<float>, cudaFuncAttributePreferredSharedMemoryCarveout, 25);
  if (choice != nullptr && choice[0] == 'x') return 2;
  return launch_rows(rms_norm_kernel<float>, call);
}

#elif defined(THREE_TYPES)
#include "half.cuh"
static int launch(const Call& call) { return LAUNCH_BY_DTYPE(rms_norm_kernel, call); }

#else
static int launch(const Call& call) { return launch_rows(rms_norm_kernel<float>, call); }
#endif
