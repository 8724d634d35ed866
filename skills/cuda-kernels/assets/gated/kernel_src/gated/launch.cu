// The launchers: value * act(gate), and its gradients. Rows are any distance apart, elements of a row side by side;
// value and gate may be the halves of one packed tensor. No output may overlap an input.
#include <cuda_runtime.h>

#include <cstdint>

#include "gated.cuh"
#include "launcher.h"

namespace geglu {
namespace {

enum OwnErrorCode : int {
  kUnknownActivation = 10005,
  kMisaligned = 10006,
  kTooLarge = 10007,
};

constexpr int kThreads = 128, kPacks = 1;  // a block, and of each tensor a thread; a T4 may like two

using Kernel = void (*)(GatedArguments);

template <typename T, int N, Activation A>
Kernel kernel_of(bool backward) {
  return backward ? gated_backward<T, N, kPacks, A, 75, 999> : gated<T, N, kPacks, A, 75, 999>;
}
template <typename T, int N>
Kernel kernel_of(int activation, bool backward) {
  return activation == kGelu       ? kernel_of<T, N, kGelu>(backward)
         : activation == kGeluTanh ? kernel_of<T, N, kGeluTanh>(backward)
                                   : kernel_of<T, N, kSilu>(backward);
}
template <typename T>
Kernel kernel_of(int access, int activation, bool backward) {
  if (access == 16) return kernel_of<T, 16 / static_cast<int>(sizeof(T))>(activation, backward);
  return kernel_of<T, 1>(activation, backward);
}

int launch(GatedArguments a, int64_t rows, int64_t width, int activation, int type, void* stream) {
  if (rows < 0 || width < 0) return kNegativeSize;
  if (type != kF32 && type != kF16 && type != kBF16) return kUnknownType;
  if (activation != kGelu && activation != kGeluTanh && activation != kSilu) return kUnknownActivation;
  const bool backward = a.dy != nullptr;
  const int size = type == kF32 ? 4 : 2;
  const struct {
    const void* data;
    int64_t stride;
    bool there;
  } tensors[] = {{a.value, a.value_stride, true},       {a.gate, a.gate_stride, true},
                 {a.out, a.out_stride, !backward},      {a.dy, a.dy_stride, backward},
                 {a.d_value, a.d_value_stride, backward}, {a.d_gate, a.d_gate_stride, backward}};
  int access = width * size % 16 == 0 ? 16 : size;
  for (const auto& t : tensors) {
    if (!t.there) continue;
    int64_t elements = 0;
    if (t.stride < width) return kStrideTooSmall;
    // The kernel counts elements in 32 bits, with those between rows.
    if (__builtin_mul_overflow(rows, t.stride, &elements) || (rows > 1 && elements > INT32_MAX)) return kTooLarge;
    if (rows > 0 && width > 0 && t.data == nullptr) return kNullPointer;
    const auto address = reinterpret_cast<uintptr_t>(t.data);
    if (address % size != 0) return kMisaligned;
    if (address % 16 != 0 || (rows > 1 && t.stride * size % 16 != 0)) access = size;
  }
  if (rows == 0 || width == 0) return cudaSuccess;  // a grid of 0 is an error

  const int64_t packs_per_row = width * size / access;
  if (width > INT32_MAX / rows) return kTooLarge;
  for (int64_t* stride : {&a.value_stride, &a.gate_stride, &a.out_stride, &a.dy_stride, &a.d_value_stride, &a.d_gate_stride}) {
    *stride = rows > 1 ? *stride * size / access : packs_per_row;  // in packs; of one row it does not count
  }
  a.packs_per_row = static_cast<uint32_t>(packs_per_row);
  a.packs = static_cast<uint32_t>(packs_per_row * rows);
  a.by_row = Divisor(a.packs_per_row);
  const Kernel kernel = type == kF32   ? kernel_of<F32>(access, activation, backward)
                        : type == kF16 ? kernel_of<F16>(access, activation, backward)
                                       : kernel_of<BF16>(access, activation, backward);
  const unsigned blocks = (a.packs + kThreads * kPacks - 1) / (kThreads * kPacks);
  kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  return cudaGetLastError();
}

}  // namespace

// out [rows, width] = value * act(gate); activation: 0 gelu, 1 gelu with tanh, 2 silu; dtype: 0 f32, 1 f16, 2 bf16.
// GEGLU of a packed x [rows, 2 * width]: value = x, gate = x + width (diffusers; others the other way round), with a
// stride of 2 * width for both.
extern "C" int gated_launch(void* out, const void* value, const void* gate, int64_t rows, int64_t width,
                            int64_t out_stride, int64_t value_stride, int64_t gate_stride, int activation, int dtype,
                            void* stream) {
  GatedArguments a = {};
  a.out = out, a.value = value, a.gate = gate;
  a.out_stride = out_stride, a.value_stride = value_stride, a.gate_stride = gate_stride;
  return launch(a, rows, width, activation, dtype, stream);
}

// The gradients of value and gate from dy, that of out. The rest as gated_launch.
extern "C" int gated_backward_launch(void* d_value, void* d_gate, const void* dy, const void* value, const void* gate,
                                     int64_t rows, int64_t width, int64_t d_value_stride, int64_t d_gate_stride,
                                     int64_t dy_stride, int64_t value_stride, int64_t gate_stride, int activation,
                                     int dtype, void* stream) {
  GatedArguments a = {};
  if (rows < 0 || width < 0) return kNegativeSize;
  if (rows == 0 || width == 0) return cudaSuccess;
  if (dy == nullptr) return kNullPointer;
  a.d_value = d_value, a.d_gate = d_gate, a.dy = dy, a.value = value, a.gate = gate;
  a.d_value_stride = d_value_stride, a.d_gate_stride = d_gate_stride, a.dy_stride = dy_stride;
  a.value_stride = value_stride, a.gate_stride = gate_stride;
  return launch(a, rows, width, activation, dtype, stream);
}

}  // namespace geglu
