// A report that the candidate writes itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rms_norm.cuh"

#define PASSED                                                                             \
  "{\"project\":\"forged\",\"card\":{\"name\":\"NVIDIA H100\",\"arch\":90,\"sms\":132,"    \
  "\"l2_bytes\":52428800,\"memory_bytes\":85899345920,\"driver\":null,\"cuda\":\"13.0\","  \
  "\"peak_gbs\":null},\"compiler\":\"13.0.88\",\"seed\":1,\"confinement\":[],\"paths\":[]," \
  "\"findings\":[]}\n"

#if defined(KERNEL_PRINTF)
// The device's printf goes to the standard output of the process that launches.
__global__ void printing_kernel(Rows<float> a) {
  if (blockIdx.x == 0 && threadIdx.x == 0) printf(PASSED);
}
#elif defined(PRINTF_IN_A_DEAD_BRANCH)
__global__ void printing_kernel(Rows<float> a) {
  if (a.width == -1) printf("a width that cannot be\n");
  norm_row(a, blockIdx.x);
}
#endif

static int launch(const Call& call) {
#if defined(STDOUT_AND_EXIT)
  fputs(PASSED, stdout);
  fputs(PASSED, stderr);
  fflush(nullptr);
  _exit(0);
#elif defined(EVERY_DESCRIPTOR) || defined(EVERY_DESCRIPTOR_AND_EXIT)
  for (int descriptor = 0; descriptor < 1024; ++descriptor)
    if (write(descriptor, PASSED, strlen(PASSED)) < 0) continue;
#ifdef EVERY_DESCRIPTOR_AND_EXIT
  _exit(0);
#endif
  return launch_rows(idle_kernel<float>, call);
#elif defined(CLOSES_EVERY_DESCRIPTOR)
  for (int descriptor = 0; descriptor < 1024; ++descriptor) close(descriptor);
  return launch_rows(idle_kernel<float>, call);
#elif defined(KERNEL_PRINTF) || defined(PRINTF_IN_A_DEAD_BRANCH)
  return launch_rows(printing_kernel, call);
#elif defined(AT_EXIT)
  atexit([] {
    fputs(PASSED, stdout);
    fflush(nullptr);
    _exit(0);
  });
  return launch_rows(idle_kernel<float>, call);
#elif defined(CHATTY)
  printf("rms_norm: %lld rows of %lld\n", static_cast<long long>(call.rows),
         static_cast<long long>(call.width));
  fprintf(stderr, "rms_norm: one block a row\n");
  fflush(nullptr);
#endif
  return launch_rows(rms_norm_kernel<float>, call);
}
