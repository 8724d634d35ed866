// CUDA C++ as plain C++, for kernels that are judged where there is no card: the threads of a block are coroutines, which
// switch at barriers and shuffles. Blocks run one after another.
//
// A launch goes to the driver of tests/cheats/stand_in where that is loaded, and else runs at once. Variables are those of a
// thread: any other would be a device variable to that driver.
#pragma once
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <tuple>
#include <utility>

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __constant__ const
#ifndef __shared__
#define __shared__ static thread_local
#endif
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __ldg(p) (*(p))
#define __ldcs(p) (*(p))
#define __stcs(p, v) (void)(*(p) = (v))
using std::max;
using std::min;

#define VECTOR(T, NAME)                                                    \
  struct alignas(2 * sizeof(T)) NAME##2 { T x, y; };                       \
  struct NAME##3 { T x, y, z; };                                           \
  struct alignas(4 * sizeof(T)) NAME##4 { T x, y, z, w; };                 \
  inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }               \
  inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTOR(float, float)
VECTOR(int, int)
VECTOR(unsigned, uint)
VECTOR(short, short)
VECTOR(unsigned short, ushort)
VECTOR(unsigned char, uchar)
VECTOR(signed char, char)
#undef VECTOR

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
using cudaStream_t = void*;
using cudaError_t = int;
enum { cudaSuccess, cudaErrorInvalidValue, cudaErrorNotSupported = 801, cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
inline const char* cudaGetErrorString(cudaError_t) { return "an error"; }
// What a block may have of shared memory where its kernel asks for more than 48 KB.
#ifndef STAND_IN_MOST_SHARED
#define STAND_IN_MOST_SHARED (227 << 10)
#endif

namespace stand_in {

constexpr unsigned kMostThreads = 1024, kStack = 64 << 10, kMostKernels = 64;
constexpr size_t kShared = 48 << 10;
enum State { kReady, kAtBlock, kAtWarp, kDone };

struct Fiber {
  jmp_buf at;
  ucontext_t begin;
  State state;
  bool begun;
  unsigned mask, turn;
};
struct Block {
  Fiber* fibers;
  char* stacks;
  unsigned count, current;
  jmp_buf scheduler;
  uint64_t slots[2][kMostThreads];
  void (*run)(void*, void**);
  void* kernel;
  void** arguments;
};
struct Place {
  dim3 grid, block, index, thread;
};
inline thread_local Place place;
inline thread_local Block block;
inline thread_local int last_error;
inline thread_local void* granted[kMostKernels];  // kernels, and what their blocks may have of shared memory
inline thread_local size_t granted_bytes[kMostKernels];
// What a judge asks for: the stream of all launches, and that few blocks run. Whether a launch was on another stream.
inline thread_local void* expected_stream;
inline thread_local bool strayed, few_blocks;
alignas(16) inline thread_local char dynamic[228 << 10];

inline size_t& shared_of(void* kernel) {
  unsigned i = 0;
  while (i + 1 < kMostKernels && granted[i] && granted[i] != kernel) ++i;
  if (granted[i] != kernel) granted[i] = kernel, granted_bytes[i] = kShared;
  return granted_bytes[i];
}

inline void wait(State state, unsigned mask) {
  Fiber& me = block.fibers[block.current];
  me.state = state, me.mask = mask;
  if (!_setjmp(me.at)) _longjmp(block.scheduler, 1);
}

inline void begin() {
  block.run(block.kernel, block.arguments);
  block.fibers[block.current].state = kDone;
  _longjmp(block.scheduler, 1);
}

// Lets go on who has waited for all that it waits for; whether there is one.
inline bool release() {
  bool all = true, some = false;
  for (unsigned w = 0; w < block.count; w += 32) {
    const unsigned n = min(32u, block.count - w);
    unsigned here = 0;
    for (unsigned i = 0; i < n; ++i) here |= unsigned(block.fibers[w + i].state >= kAtWarp) << i;
    if (n < 32) here |= ~0u << n;
    for (unsigned i = 0; i < n; ++i) {
      Fiber& f = block.fibers[w + i];
      if (f.state == kAtWarp && (f.mask & ~here) == 0) f.state = kReady;
      all &= f.state == kAtBlock || f.state == kDone;
      some |= f.state == kReady;
    }
  }
  for (unsigned i = 0; all && i < block.count; ++i)
    if (block.fibers[i].state == kAtBlock) block.fibers[i].state = kReady, some = true;
  return some;
}

inline void run_block() {
  for (unsigned i = 0; i < block.count; ++i) block.fibers[i].state = kReady, block.fibers[i].begun = false, block.fibers[i].turn = 0;
  while (release())
    for (volatile unsigned i = 0; i < block.count; ++i) {
      Fiber& f = block.fibers[i];
      if (f.state != kReady) continue;
      block.current = i;
      const dim3 d = place.block;
      place.thread = dim3(i % d.x, i / d.x % d.y, i / d.x / d.y);
      if (_setjmp(block.scheduler)) continue;
      if (f.begun) _longjmp(f.at, 1);
      f.begun = true;
      getcontext(&f.begin);
      f.begin.uc_stack.ss_sp = block.stacks + size_t(i) * kStack, f.begin.uc_stack.ss_size = kStack;
      makecontext(&f.begin, begin, 0);
      setcontext(&f.begin);
    }
  for (unsigned i = 0; i < block.count; ++i)
    if (block.fibers[i].state != kDone) __builtin_trap();  // a barrier that not all threads reach
}

template <typename... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<A*>(arguments[I])...);
}
template <typename... A>
void run_thread(void* kernel, void** arguments) {
  call(reinterpret_cast<void (*)(A...)>(kernel), arguments, std::index_sequence_for<A...>());
}

// Runs a kernel; without arguments, writes their sizes, and a zero behind them.
template <typename... A>
__attribute__((used)) void invoke(void (*kernel)(A...), const dim3* shape, void** arguments, size_t* sizes) {
  if (arguments == nullptr) {
    ((*sizes++ = sizeof(A)), ...);
    *sizes = 0;
    return;
  }
  if (!block.fibers) {
    block.fibers = static_cast<Fiber*>(malloc(kMostThreads * sizeof(Fiber)));
    block.stacks = static_cast<char*>(malloc(size_t(kMostThreads) * kStack));
  }
  block.count = shape[1].x * shape[1].y * shape[1].z;
  block.run = run_thread<A...>, block.kernel = reinterpret_cast<void*>(kernel), block.arguments = arguments;
  const dim3 grid = shape[0];
  const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  for (uint64_t b = 0; b < blocks; ++b) {
    if (few_blocks && b > 1 && b + 2 < blocks && b != blocks / 2) continue;
    place = {grid, shape[1], dim3(b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y), dim3()};
    run_block();
  }
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
    const unsigned threads = shape[1].x * shape[1].y * shape[1].z;
    last_error = cudaErrorInvalidValue;
    if (threads == 0 || threads > kMostThreads || shape[0].x == 0 || shape[0].y == 0 || shape[0].y > 65535) return;
    if (shape[0].x > INT_MAX || shared > shared_of(reinterpret_cast<void*>(kernel))) return;
    strayed |= stream != expected_stream;
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    auto* record = driver ? reinterpret_cast<Record*>(dlsym(driver, "stand_in_launch")) : nullptr;
    last_error = record ? record(reinterpret_cast<void*>(kernel), reinterpret_cast<void*>(invoke<A...>), shape, shared, stream,
                                 arguments)
                        : (invoke<A...>(kernel, shape, arguments, nullptr), cudaSuccess);
  }
};

// `kernel<<<grid, block, shared, stream>>>`, as it is rewritten.
template <typename... A>
Launch<A...> launch(void (*kernel)(A...), dim3 grid, dim3 block, size_t shared = 0, void* stream = nullptr) {
  return {kernel, {grid, block}, shared, stream};
}

template <typename T>
T shuffled(unsigned mask, T value, unsigned lane) {
  Fiber& me = block.fibers[block.current];
  const unsigned turn = me.turn++ % 2, self = block.current;
  memcpy(&block.slots[turn][self], &value, sizeof value);
  wait(kAtWarp, mask);
  if (lane < 32 && self / 32 * 32 + lane < block.count) memcpy(&value, &block.slots[turn][self / 32 * 32 + lane], sizeof value);
  return value;
}

template <typename To, typename From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace stand_in

// The code is for sm_75, which has no clusters: what launches them is never called.
struct cudaFuncAttributes {
  int binaryVersion = 75, ptxVersion = 75;
};
template <typename F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, F*) {
  *attributes = {};
  return cudaSuccess;
}
enum { cudaLaunchAttributeClusterDimension = 4 };
struct cudaLaunchAttribute {
  int id;
  struct {
    struct {
      unsigned x, y, z;
    } clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
template <typename F, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t*, F*, A...) {
  return cudaErrorNotSupported;
}

template <typename F>
cudaError_t cudaFuncSetAttribute(F* kernel, int attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > STAND_IN_MOST_SHARED) return cudaErrorInvalidValue;
  return stand_in::shared_of(reinterpret_cast<void*>(kernel)) = max(size_t(value), stand_in::kShared), cudaSuccess;
}
#ifdef STAND_IN_JUDGE
extern "C" {
__attribute__((used)) inline void stand_in_expect(void* stream, bool few) {
  stand_in::expected_stream = stream, stand_in::few_blocks = few, stand_in::strayed = false;
}
__attribute__((used)) inline bool stand_in_strayed() { return stand_in::strayed; }
}
#endif

#define gridDim stand_in::place.grid
#define blockDim stand_in::place.block
#define blockIdx stand_in::place.index
#define threadIdx stand_in::place.thread
#define warpSize 32

inline int cudaGetLastError() { return std::exchange(stand_in::last_error, 0); }
inline int cudaPeekAtLastError() { return stand_in::last_error; }
inline int cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t) { return memset(to, byte, bytes), 0; }

inline void __syncthreads() { stand_in::wait(stand_in::kAtBlock, 0); }
inline void __syncwarp(unsigned mask = ~0u) { stand_in::wait(stand_in::kAtWarp, mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline unsigned lane_of_thread() { return stand_in::block.current % 32; }
template <typename T>
T __shfl_xor_sync(unsigned mask, T v, int d, int = 32) { return stand_in::shuffled(mask, v, lane_of_thread() ^ unsigned(d)); }
template <typename T>
T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
  return stand_in::shuffled(mask, v, lane_of_thread() / width * width + unsigned(lane) % width);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T v, unsigned d, int width = 32) {
  const unsigned lane = lane_of_thread();
  return stand_in::shuffled(mask, v, lane % width + d < unsigned(width) ? lane + d : lane);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T v, unsigned d, int width = 32) {
  const unsigned lane = lane_of_thread();
  return stand_in::shuffled(mask, v, lane % width >= d ? lane - d : lane);
}
inline unsigned __ballot_sync(unsigned mask, int yes) {
  unsigned all = 0;
  for (unsigned i = 0; i < 32; ++i) all |= unsigned(__shfl_sync(mask, int(yes != 0), int(i)) != 0) << i;
  return all & mask;
}
inline uint32_t __float_as_uint(float v) { return stand_in::bits<uint32_t>(v); }
inline int __float_as_int(float v) { return stand_in::bits<int>(v); }
inline float __uint_as_float(uint32_t v) { return stand_in::bits<float>(v); }
inline float __int_as_float(int v) { return stand_in::bits<float>(v); }
inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
inline float __expf(float v) { return expf(v); }
inline float __exp2f(float v) { return exp2f(v); }
inline float __logf(float v) { return logf(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __frsqrt_rn(float v) { return 1.0f / sqrtf(v); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __saturatef(float v) { return v > 0.0f ? min(v, 1.0f) : 0.0f; }
inline int __float2int_rz(float v) { return v != v ? 0 : int(min(max(truncf(v), -2147483648.0f), 2147483520.0f)); }
inline int __float2int_rn(float v) { return v != v ? 0 : int(min(max(rintf(v), -2147483648.0f), 2147483520.0f)); }
template <typename T, typename U>
T atomicAdd(T* to, U value) { return std::exchange(*to, T(*to + value)); }
template <typename T>
T atomicMax(T* to, T value) { return std::exchange(*to, max(*to, value)); }
