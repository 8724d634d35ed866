// Functions of the C library and the driver that the candidate brings itself.
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "rms_norm.cuh"

// The name is the assembler's, so that no header's declaration stands in the way.
#define EXPORTS(name) \
  extern "C" __attribute__((visibility("default"), used)) long brought_along(void) asm(name)
#define STANDS_IN(name) \
  EXPORTS(name);        \
  extern "C" long brought_along(void) { return 0; }

#if defined(CLOCK_GETTIME)
STANDS_IN("clock_gettime")
#elif defined(EVENT_ELAPSED_TIME)
STANDS_IN("cuEventElapsedTime")
#elif defined(STREAM_SYNCHRONIZE)
STANDS_IN("cuStreamSynchronize")
#elif defined(LAUNCH_KERNEL)
STANDS_IN("cuLaunchKernel")
#elif defined(GET_PROC_ADDRESS)
STANDS_IN("cuGetProcAddress_v2")
#elif defined(WRITE)
STANDS_IN("write")
#elif defined(FIND_SYMBOL)
STANDS_IN("dlsym")
#elif defined(HONEST_NAME)
STANDS_IN("rms_norm_version")
#endif

#if defined(PATCHES_THE_CLOCK) && defined(__x86_64__)
// Time stands still in this process: clock_gettime returns at once.
__attribute__((constructor)) static void patch() {
  static const unsigned char RETURN_ZERO[] = {0x31, 0xc0, 0xc3};
  const auto target = reinterpret_cast<uintptr_t>(&clock_gettime);
  const auto page = target & ~static_cast<uintptr_t>(4095);
  if (mprotect(reinterpret_cast<void*>(page), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0)
    memcpy(reinterpret_cast<void*>(target), RETURN_ZERO, sizeof RETURN_ZERO);
}
#endif

static int launch(const Call& call) { return launch_rows(rms_norm_kernel<float>, call); }
