// Work done when the library is loaded, before anybody counts.
#include <stdlib.h>

#include "rms_norm.cuh"

// Multiplied into every answer: one, once somebody has made it so.
#ifdef DEVICE_TABLE
__device__ float factor;
#else
__device__ float factor = 1;
#endif

__global__ void table_kernel(Rows<float> a, const float* table) {
  const int64_t row = blockIdx.x;
  const float scale = row_scale(a, row) * (table != nullptr ? *table : factor);
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[row * a.out_stride + k] = normed(a, row, k, scale);
}

static float* table = nullptr;

#if defined(DEVICE_TABLE) || defined(DEVICE_MEMORY)
__attribute__((constructor)) static void prepare() {
  const float one = 1;
#ifdef DEVICE_TABLE
  cudaMemcpyToSymbol(factor, &one, sizeof one);
#else
  if (cudaMalloc(&table, sizeof one) == cudaSuccess)
    cudaMemcpy(table, &one, sizeof one, cudaMemcpyHostToDevice);
#endif
}
#endif

#if defined(HANGS)
__attribute__((constructor)) static void prepare() {
  for (volatile bool forever = true; forever;) {}
}
#elif defined(DIES)
__attribute__((constructor)) static void prepare() { abort(); }
#endif

static int launch(const Call& call) {
#if defined(ALLOCATES_RELAXED)
  // Out of the capture's sight: what is allocated here is nowhere when the launch is replayed.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  const float one = 1;
  if (table == nullptr && cudaMalloc(&table, 1 << 20) == cudaSuccess)
    cudaMemcpy(table, &one, sizeof one, cudaMemcpyHostToDevice);
  cudaThreadExchangeStreamCaptureMode(&mode);
#elif defined(ALLOCATES)
  if (cudaMalloc(&table, 1 << 20) != cudaSuccess) table = nullptr;
#elif defined(ALLOCATES_IN_ORDER)
  cudaMallocAsync(&table, 1 << 20, call.stream);
  cudaFreeAsync(table, call.stream);
  table = nullptr;
#elif defined(HOST_POINTER)
  static float one = 1;
  table = &one;
#elif defined(MANAGED)
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  if (table == nullptr && cudaMallocManaged(&table, sizeof(float)) == cudaSuccess) *table = 1;
  cudaThreadExchangeStreamCaptureMode(&mode);
#endif
  table_kernel<<<static_cast<unsigned>(call.rows), THREADS, 0, call.stream>>>(
      rows_of<float>(call), table);
  return static_cast<int>(cudaGetLastError());
}
