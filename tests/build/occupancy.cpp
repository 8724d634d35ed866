// The toolkit's own occupancy calculator: a question a line, an answer a line.
#include <cstdio>
#include <cuda_occupancy.h>

int main() {
  int arch, threads_a_sm, blocks_a_sm, shared_a_sm, reserved, registers_a_sm, registers, shared, threads;
  while (scanf("%d %d %d %d %d %d %d %d %d", &arch, &threads_a_sm, &blocks_a_sm, &shared_a_sm, &reserved,
               &registers_a_sm, &registers, &shared, &threads) == 9) {
    cudaOccDeviceProp card{};
    card.computeMajor = arch / 10;
    card.computeMinor = arch % 10;
    card.maxThreadsPerBlock = 1024;
    card.maxThreadsPerMultiprocessor = threads_a_sm;
    card.regsPerBlock = 65536;
    card.regsPerMultiprocessor = registers_a_sm;
    card.warpSize = 32;
    card.sharedMemPerBlock = 49152;
    card.sharedMemPerMultiprocessor = shared_a_sm;
    card.sharedMemPerBlockOptin = shared_a_sm - reserved;
    card.reservedSharedMemPerBlock = reserved;
    card.numSms = 1;
    cudaOccFuncAttributes kernel{};
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = shared;
    kernel.maxDynamicSharedSizeBytes = shared_a_sm;
    cudaOccDeviceState state{};
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result{};
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &card, &kernel, &state, threads, 0) != CUDA_OCC_SUCCESS) {
      puts("0");
      continue;
    }
    // The largest number of blocks is the calculator's own table, not ours.
    if (result.activeBlocksPerMultiprocessor > blocks_a_sm) {
      puts("-1");
      continue;
    }
    printf("%d\n", result.activeBlocksPerMultiprocessor);
  }
}
