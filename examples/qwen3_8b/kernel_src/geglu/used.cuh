// Layouts of some architectures only.
#pragma once

// Whether the code being compiled uses a layout of these architectures. Where it does not, the kernel is a trap: its
// symbol must exist, but its machine code would only cost compile time.
#ifdef __CUDA_ARCH__
template <int FIRST, int LAST>
constexpr bool kUsed = __CUDA_ARCH__ >= FIRST * 10 && __CUDA_ARCH__ <= LAST * 10 + 9;
#else
template <int FIRST, int LAST>
constexpr bool kUsed = true;
#endif
