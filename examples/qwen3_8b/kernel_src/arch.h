// Generated from kernels/common/arch.h.
// What differs between the architectures that code is compiled for.
#pragma once

namespace common {

// The last architecture of a layout that all later ones use as well.
constexpr int kNewest = 999;

// The architectures that tuning tables are for.
constexpr int kOldest = 75, kTunedArchs[] = {75, 80, 90};

// Threads that can be resident on an SM.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kSmThreads = 1024;
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
