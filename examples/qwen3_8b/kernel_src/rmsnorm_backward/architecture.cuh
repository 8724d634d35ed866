// What differs between the architectures that the code is compiled for.
#pragma once

// Threads an SM has room for: sm_75 for half as many as those after it.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kThreadsOfAnSM = 1024;
#else
constexpr int kThreadsOfAnSM = 2048;
#endif

// Whether the code being compiled uses a layout of these architectures. Where it does not, the kernel is a trap: its
// symbol must exist, but its machine code would only cost compile time.
#ifdef __CUDA_ARCH__
template <int FIRST, int LAST>
constexpr bool kUsed = __CUDA_ARCH__ >= FIRST * 10 && __CUDA_ARCH__ <= LAST * 10 + 9;
#else
template <int FIRST, int LAST>
constexpr bool kUsed = true;
#endif
