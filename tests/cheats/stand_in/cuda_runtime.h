// CUDA C++ as plain C++: a kernel is a host function, and a launch goes to the driver of libcuda.cpp.
//
// The threads of a block run one after another, so a kernel that synchronises them must be launched with one (THREADS of
// rms_norm.cuh). Nothing here may be a variable: a cubin's variables are its device variables. Variables of a thread count not.
#pragma once
#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <utility>

#define __global__ __attribute__((noinline))
#define __device__
#define __shared__
#define __grid_constant__
#define THREADS_A_BLOCK 1

struct float4 {
  float x, y, z, w;
};
struct uint4 {
  uint32_t x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
using cudaStream_t = void*;
constexpr int cudaErrorInvalidValue = 1, cudaErrorNotSupported = 801;
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };

namespace stand_in {

struct Place {
  dim3 grid, block, index, thread;
};
inline thread_local Place place;
inline thread_local int last_error;
inline thread_local uint64_t cycles;
// Set by a kernel that has done the work of all threads: the others are not run.
inline thread_local bool done;

template <typename F>
F* driver(const char* name) {
  return reinterpret_cast<F*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

template <typename... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<A*>(arguments[I])...);
}

// f of every index, x first, until one is false.
template <typename F>
bool each(dim3 size, F f) {
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x)
        if (!f(dim3(x, y, z))) return false;
  return true;
}

// Runs a kernel; without arguments, writes their sizes, and a zero behind them.
template <typename... A>
__attribute__((used)) void invoke(void (*kernel)(A...), const dim3* shape, void** arguments, size_t* sizes) {
  if (arguments == nullptr) {
    ((*sizes++ = sizeof(A)), ...);
    *sizes = 0;
    return;
  }
  const dim3 grid = shape[0], block = shape[1];
  each(grid, [&](dim3 b) {
    return each(block, [&](dim3 t) {
      place = {grid, block, b, t};
      call(kernel, arguments, std::index_sequence_for<A...>());
      return !done;
    });
  });
  done = false;
}

using Record = int(void*, void*, const dim3*, size_t, void*, void**);

template <typename... A>
struct Launch {
  void (*kernel)(A...);
  dim3 shape[2];
  size_t shared;
  void* stream;
  void operator()(A... values) const {
    void* arguments[] = {&values..., nullptr};
    auto* record = driver<Record>("stand_in_launch");
    last_error = record(reinterpret_cast<void*>(kernel), reinterpret_cast<void*>(invoke<A...>), shape, shared, stream,
                        arguments);
  }
};

// `kernel<<<grid, block, shared, stream>>>`, as nvcc.cpp writes it.
template <typename... A>
Launch<A...> launch(void (*kernel)(A...), dim3 grid, dim3 block, size_t shared = 0, void* stream = nullptr) {
  return {kernel, {grid, block}, shared, stream};
}

// Tells the clock how long this launch takes, in microseconds.
inline void takes(double microseconds) { driver<void(double)>("stand_in_takes")(microseconds); }

template <typename To, typename From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace stand_in

#define gridDim stand_in::place.grid
#define blockDim stand_in::place.block
#define blockIdx stand_in::place.index
#define threadIdx stand_in::place.thread

inline int cudaGetLastError() { return std::exchange(stand_in::last_error, 0); }

inline int cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = stand_in::driver<cudaStreamCaptureStatus()>("stand_in_capturing")();
  return 0;
}
inline int cudaStreamSynchronize(cudaStream_t) { return 0; }
inline int cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t) { return memset(to, byte, bytes), 0; }

inline void __syncthreads() {
  if (blockDim.x > 1) __builtin_trap();
}
inline float __shfl_xor_sync(unsigned, float value, int) { return value; }
inline uint64_t clock64() { return stand_in::cycles += 1000; }
inline uint32_t __float_as_uint(float value) { return stand_in::bits<uint32_t>(value); }
inline float __uint_as_float(uint32_t value) { return stand_in::bits<float>(value); }
inline float __int_as_float(int value) { return stand_in::bits<float>(value); }
inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return static_cast<unsigned __int128>(a) * b >> 64; }
template <typename T, typename U>
T atomicAdd(T* to, U value) {
  return std::exchange(*to, *to + value);
}
template <typename T>
T atomicMin(T* to, T value) {
  return std::exchange(*to, value < *to ? value : *to);
}
