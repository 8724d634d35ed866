// Work that leaves the stream it was given.
#include <pthread.h>
#include <unistd.h>

#include "rms_norm.cuh"

#if defined(ANOTHER_STREAM) || defined(BACK_BY_NOBODY) || defined(LATE_WRITE) || defined(JOINED)
static cudaStream_t another() {
  static cudaStream_t stream = nullptr;
  if (stream == nullptr) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}
#endif

#if defined(LATE_WRITE)
// Writes long after the launch that is timed has ended.
__global__ void late_kernel(Rows<float> a) {
  for (int step = 0; step < 100; ++step) __nanosleep(1000);
  norm_row(a, blockIdx.x);
}
#endif

#if defined(THREAD_LATER)
static Call later;
static void* after_a_while(void*) {
  usleep(20000);
  launch_rows(rms_norm_kernel<float>, later);
  return nullptr;
}
#endif

static int launch(const Call& call) {
#if defined(ANOTHER_STREAM)
  Call elsewhere = call;
  elsewhere.stream = another();
  return launch_rows(rms_norm_kernel<float>, elsewhere);
#elif defined(LEGACY_STREAM)
  Call elsewhere = call;
  elsewhere.stream = cudaStreamLegacy;
  return launch_rows(rms_norm_kernel<float>, elsewhere);
#elif defined(PER_THREAD_STREAM)
  Call elsewhere = call;
  elsewhere.stream = cudaStreamPerThread;
  launch_rows(rms_norm_kernel<float>, elsewhere);
  return launch_rows(idle_kernel<float>, call);
#elif defined(THREAD_LATER)
  later = call;
  pthread_t thread;
  return pthread_create(&thread, nullptr, after_a_while, nullptr);
#elif defined(LATE_WRITE) || defined(BACK_BY_NOBODY) || defined(JOINED)
  cudaEvent_t fork, join;
  cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
  cudaEventRecord(fork, call.stream);
  cudaStreamWaitEvent(another(), fork, 0);
  Call upper = call, lower = call;
  upper.rows = call.rows / 2;
  lower.rows = call.rows - upper.rows;
  lower.out = static_cast<float*>(call.out) + upper.rows * call.out_stride;
  lower.x = static_cast<const float*>(call.x) + upper.rows * call.x_stride;
  upper.stream = another();
#ifdef LATE_WRITE
  if (upper.rows > 0) launch_rows(late_kernel, upper);
#else
  if (upper.rows > 0) launch_rows(rms_norm_kernel<float>, upper);
#endif
#ifdef JOINED
  cudaEventRecord(join, another());
  cudaStreamWaitEvent(call.stream, join, 0);
#endif
  const int failed = launch_rows(rms_norm_kernel<float>, lower);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
  return failed;
#elif defined(SYNCHRONISES)
  launch_rows(rms_norm_kernel<float>, call);
  cudaStreamSynchronize(call.stream);
  return 0;
#elif defined(DEVICE_SYNCHRONISES)
  cudaDeviceSynchronize();
  return launch_rows(rms_norm_kernel<float>, call);
#elif defined(ENDS_THE_CAPTURE)
  // What was captured is thrown away, and another capture given back.
  launch_rows(rms_norm_kernel<float>, call);
  cudaGraph_t graph;
  cudaStreamEndCapture(call.stream, &graph);
  cudaGraphDestroy(graph);
  cudaStreamBeginCapture(call.stream, cudaStreamCaptureModeRelaxed);
  return launch_rows(idle_kernel<float>, call);
#elif defined(RESETS_THE_DEVICE)
  launch_rows(rms_norm_kernel<float>, call);
  cudaDeviceReset();
  return 0;
#else
  return launch_rows(rms_norm_kernel<float>, call);
#endif
}
