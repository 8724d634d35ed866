// What differs between the architectures that code is compiled for.
#pragma once

namespace common {

// The last architecture of a layout that all later ones use as well.
constexpr int kNewest = 999;

// The architectures that tuning tables are for.
constexpr int kOldest = 75, kTunedArchs[] = {75, 80, 89, 90, 100, 120};

// Threads that can be resident on an SM: what a bound on the blocks of an SM may ask for.
constexpr int sm_threads(int arch) {
  const bool datacentre = arch == 80 || arch == 90 || arch == 100 || arch == 103;
  return arch < 80 ? 1024 : datacentre ? 2048 : 1536;
}
// Of the architecture being compiled for; host code takes no bound from it.
#ifdef __CUDA_ARCH__
constexpr int kSmThreads = sm_threads(__CUDA_ARCH__ / 10);
#else
constexpr int kSmThreads = 2048;
#endif

// Whether the architecture being compiled for is one from FIRST to LAST. The kernel of a layout that it does not use is
// a trap: host code refers to its symbol, but its machine code would only cost compile time.
#ifdef __CUDA_ARCH__
template <int FIRST, int LAST = kNewest>
constexpr bool kUsed = __CUDA_ARCH__ >= FIRST * 10 && __CUDA_ARCH__ <= LAST * 10 + 9;
#else
template <int FIRST, int LAST = kNewest>
constexpr bool kUsed = true;
#endif

}  // namespace common
