// Kernels that fail on the card.
#include "rms_norm.cuh"

__global__ void faults_kernel(Rows<float> a) {
#if defined(TRAPS)
  if (blockIdx.x == 0) __trap();
#elif defined(ILLEGAL_ADDRESS)
  if (threadIdx.x == 0) *reinterpret_cast<volatile float*>(16) = 1;
#elif defined(NEVER_ENDS)
  // A loop without effect is compiled away.
  for (;;) asm volatile("nanosleep.u32 1000;");
#elif defined(MISALIGNED)
  if (threadIdx.x == 0)
    *reinterpret_cast<volatile double*>(reinterpret_cast<char*>(a.out) + 1) = 1;
#endif
  norm_row(a, blockIdx.x);
}

static int launch(const Call& call) { return launch_rows(faults_kernel, call); }
