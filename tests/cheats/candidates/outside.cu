// Launchers that do something else outside of capture, where kernels ship.
#include "rms_norm.cuh"

[[maybe_unused]] static bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  return status != cudaStreamCaptureStatusNone;
}

// The row's scale in eight bits.
[[maybe_unused]] __global__ void coarse_kernel(Rows<float> a) {
  const float scale = __int_as_float(static_cast<int>(__float_as_uint(row_scale(a, blockIdx.x)) & 0xffff0000u));
  for (int64_t k = threadIdx.x; k < a.width; k += THREADS)
    a.out[blockIdx.x * a.out_stride + k] = normed(a, blockIdx.x, k, scale);
}

#if defined(TRAPS_OUTSIDE)
__global__ void trap_kernel(Rows<float>) { asm volatile("trap;"); }
#endif

static int launch(const Call& call) {
#if defined(ONLY_UNDER_CAPTURE)
  if (!is_captured(call.stream)) return 0;
#elif defined(MANY_ROWS_ONLY_UNDER_CAPTURE)
  if (!is_captured(call.stream) && call.rows > 1000) return 0;
#elif defined(COARSE_OUTSIDE)
  if (!is_captured(call.stream)) return launch_rows(coarse_kernel, call);
#elif defined(LEAVES_A_ROW_OUTSIDE)
  Call fewer = call;
  if (!is_captured(call.stream) && call.rows > 1) --fewer.rows;
  return launch_rows(rms_norm_kernel<float>, fewer);
#elif defined(REFUSES_OUTSIDE)
  if (!is_captured(call.stream)) return static_cast<int>(cudaErrorNotSupported);
#elif defined(TRAPS_OUTSIDE)
  if (!is_captured(call.stream)) return launch_rows(trap_kernel, call);
#elif defined(WRITES_BEHIND_OUTSIDE)
  if (!is_captured(call.stream))
    cudaMemsetAsync(static_cast<float*>(call.out) + (call.rows - 1) * call.out_stride + call.width, 3, 16, call.stream);
#elif defined(SYNCHRONISES_OUTSIDE)
  // Odd, and right.
  const int failed = launch_rows(rms_norm_kernel<float>, call);
  if (!is_captured(call.stream)) cudaStreamSynchronize(call.stream);
  return failed;
#endif
  return launch_rows(rms_norm_kernel<float>, call);
}
