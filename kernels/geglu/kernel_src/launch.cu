// The launchers: they check every argument, pick a kernel from the tuning table and launch it.
//
// Rows are any distance apart, elements of a row side by side. No output may overlap an input or another output.
// Nothing here waits for the device.
#include <cuda_runtime.h>

#include <cstdint>

#include "arguments.h"
#include "dependent.cuh"
#include "kernels.h"
#include "launcher.h"

namespace geglu {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kBadOption = 10005,
  kMisaligned = 10006,
  kTooLarge = 10007,
  kNoCode = 10008,
};

// A tensor as a caller passes it: rows of so many elements.
struct Matrix {
  const void* data;
  int64_t width, stride;
};

// 0, or why these arguments are refused.
template <int N>
int check(const Matrix (&matrices)[N], int64_t rows, int type) {
  if (type != kF32 && type != kF16 && type != kBF16) return kUnknownType;
  const int64_t size = size_of(type);
  for (const Matrix& m : matrices) {
    int64_t bytes = 0;
    if (rows < 0 || m.width < 0) return kNegativeSize;
    const int64_t stride = rows > 1 ? m.stride : m.width;  // one row has no next one
    if (stride < m.width) return kStrideTooSmall;
    if (__builtin_mul_overflow(rows, stride, &bytes) || __builtin_mul_overflow(bytes, 8 * size, &bytes)) {
      return kTooLarge;  // with room for the sum of the bytes of all
    }
    if (rows != 0 && m.width != 0 && m.data == nullptr) return kNullPointer;
    if (!divides(size, m.data)) return kMisaligned;
  }
  return 0;
}

// The elements of all tensors of a call, which have the same rows and width.
struct Call {
  GatedArguments tensors;
  int64_t rows, width;
  Activation activation;
  Direction direction;
  int type;
  cudaStream_t stream;
};

// A tensor among those of a call: its first element and its stride.
struct Part {
  const void* data;
  int64_t stride;
};

constexpr int kParts = 6;

void parts_of(const GatedArguments& a, Part (&parts)[kParts]) {
  const Part all[] = {{a.value, a.value_stride}, {a.gate, a.gate_stride},       {a.dy, a.dy_stride},
                      {a.out, a.out_stride},     {a.d_value, a.d_value_stride}, {a.d_gate, a.d_gate_stride}};
  for (int i = 0; i < kParts; ++i) parts[i] = all[i];
}

// The bytes of the widest access that every row of every tensor is a whole number of, from an aligned address on. A
// single row may have a tail behind its last 16 bytes.
int widest_access(const Call& call) {
  const int64_t size = size_of(call.type);
  Part parts[kParts];
  parts_of(call.tensors, parts);
  for (const int bytes : {16, 4}) {
    bool fits = call.width * size % bytes == 0 || (bytes == 16 && call.rows == 1 && call.width * size > bytes);
    for (const Part& part : parts) {
      // One row has no next one, and its stride may be anything.
      fits = fits && divides(bytes, part.data) && (call.rows == 1 || part.stride * size % bytes == 0);
    }
    if (fits) return bytes;
  }
  return static_cast<int>(size);
}

// Rows without gaps are one row, which begins at one address and has one tail.
void join_rows(Call& call) {
  Part parts[kParts];
  parts_of(call.tensors, parts);
  for (const Part& part : parts)
    if (part.data != nullptr && part.stride != call.width) return;
  call.width *= call.rows;
  call.rows = 1;
}

// The tensors from that row and pack on, for a kernel: their strides in packs of so many elements.
GatedArguments from(GatedArguments a, int64_t row, int64_t pack, int64_t elements, int64_t size) {
  const auto in = [=](const void*& p, int64_t& stride) {
    if (p != nullptr) p = static_cast<const char*>(p) + (row * stride + pack * elements) * size;
    stride /= elements;
  };
  const auto out = [=](void*& p, int64_t& stride) {
    if (p != nullptr) p = static_cast<char*>(p) + (row * stride + pack * elements) * size;
    stride /= elements;
  };
  in(a.value, a.value_stride), in(a.gate, a.gate_stride), in(a.dy, a.dy_stride);
  out(a.out, a.out_stride), out(a.d_value, a.d_value_stride), out(a.d_gate, a.d_gate_stride);
  return a;
}

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// For arguments that are right.
int launch(Call call) {
  if (call.rows == 0 || call.width == 0) return cudaSuccess;
  join_rows(call);
  const bool backward = call.direction == kBackward;
  const auto kernel_of = call.type == kF32   ? gated_kernel_f32
                         : call.type == kF16 ? gated_kernel_f16
                                             : gated_kernel_bf16;
  const int64_t size = size_of(call.type);
  const int access = widest_access(call);

  int arch = 0;
  const Tuning* oldest = find_gated_tuning(kOldest, call.direction, access);
  const void* any = kernel_of(oldest->layout, access, call.activation, backward);
  if (const cudaError_t error = code_arch(any, arch)) return error;
  const Tuning* tuning = find_gated_tuning(arch, call.direction, access);
  if (tuning == nullptr) return kNoCode;
  const Layout& layout = tuning->layout;
  const void* kernel = kernel_of(layout, access, call.activation, backward);

  // One launch, but for tensors that span 2^31 elements and more: then a launch takes as many rows as span fewer, or a
  // piece of one row, so that kernels count in 32 bits.
  const int64_t elements = access / size, packs_per_row = call.width / elements, most = INT32_MAX / elements;
  const int64_t columns = smaller(packs_per_row, most);
  int64_t apart = packs_per_row;  // packs from row to row, of the tensor with most
  Part parts[kParts];
  parts_of(call.tensors, parts);
  for (const Part& part : parts)
    if (part.stride / elements > apart) apart = part.stride / elements;
  const int64_t rows = smaller(call.rows, 1 + (most - columns) / apart);
  const int64_t packs_per_block = static_cast<int64_t>(layout.threads) * layout.packs;
  for (int64_t row = 0; row < call.rows; row += rows) {
    for (int64_t column = 0; column < packs_per_row; column += columns) {
      GatedArguments a = from(call.tensors, row, column, elements, size);
      a.packs_per_row = static_cast<uint32_t>(smaller(columns, packs_per_row - column));
      a.packs = static_cast<uint32_t>(smaller(rows, call.rows - row) * a.packs_per_row);
      a.tail = column + columns < packs_per_row ? 0 : static_cast<uint32_t>(call.width % elements);
      a.by_row = Divisor(a.packs_per_row);
      void* parameters[] = {&a};
      const int64_t blocks = (a.packs + packs_per_block - 1) / packs_per_block + (a.tail != 0);
      const dim3 grid(static_cast<unsigned>(blocks));
      const auto error = cleared(launch_dependent(kernel, arch, grid, layout.threads, parameters, 0, call.stream));
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

// The halves of a packed tensor.
void* half(void* x, int64_t inner, int type, bool second) {
  return static_cast<char*>(x) + (second ? inner * size_of(type) : 0);
}
const void* half(const void* x, int64_t inner, int type, bool second) {
  return static_cast<const char*>(x) + (second ? inner * size_of(type) : 0);
}

int launch_packed(void* out, const void* x, int64_t rows, int64_t inner, int64_t out_stride, int64_t x_stride,
                  int gate_first, Activation activation, int type, void* stream) {
  if (inner > INT64_MAX / 2) return kTooLarge;
  const Matrix matrices[] = {{out, inner, out_stride}, {x, 2 * inner, x_stride}};
  if (const int error = check(matrices, rows, type)) return error;
  if (gate_first != 0 && gate_first != 1) return kBadOption;
  if (rows == 0 || inner == 0) return cudaSuccess;
  GatedArguments a = {};
  a.value = half(x, inner, type, gate_first == 1), a.gate = half(x, inner, type, gate_first == 0), a.out = out;
  a.value_stride = a.gate_stride = x_stride, a.out_stride = out_stride;
  return launch({a, rows, inner, activation, kForward, type, static_cast<cudaStream_t>(stream)});
}

}  // namespace

// x [rows, 2 * inner] holds value and gate side by side, value first as in diffusers, or gate_first.
// out [rows, inner] = value * gelu(gate); tanh: with the tanh approximation. Strides are elements from row to row.
// dtype: 0 f32, 1 f16, 2 bf16. Returns 0, a cudaError_t, or a code that geglu_error explains; with such a code nothing
// was launched. An empty tensor launches nothing and returns 0.
extern "C" int geglu_launch(void* out, const void* x, int64_t rows, int64_t inner, int64_t out_stride,
                            int64_t x_stride, int gate_first, int tanh, int dtype, void* stream) {
  if (tanh != 0 && tanh != 1) return kBadOption;
  const Activation activation = tanh == 1 ? kGeluTanh : kGelu;
  return launch_packed(out, x, rows, inner, out_stride, x_stride, gate_first, activation, dtype, stream);
}

// out = value * silu(gate), the rest as geglu_launch.
extern "C" int swiglu_packed_launch(void* out, const void* x, int64_t rows, int64_t inner, int64_t out_stride,
                                    int64_t x_stride, int gate_first, int dtype, void* stream) {
  return launch_packed(out, x, rows, inner, out_stride, x_stride, gate_first, kSilu, dtype, stream);
}

// out [rows, width] = silu(gate) * up, for two tensors; these may be the halves of a packed one, whose row is the
// stride of both.
extern "C" int swiglu_launch(void* out, const void* gate, const void* up, int64_t rows, int64_t width,
                             int64_t out_stride, int64_t gate_stride, int64_t up_stride, int dtype, void* stream) {
  const Matrix matrices[] = {{out, width, out_stride}, {gate, width, gate_stride}, {up, width, up_stride}};
  if (const int error = check(matrices, rows, dtype)) return error;
  GatedArguments a = {};
  a.value = up, a.gate = gate, a.out = out;
  a.value_stride = up_stride, a.gate_stride = gate_stride, a.out_stride = out_stride;
  return launch({a, rows, width, kSilu, kForward, dtype, static_cast<cudaStream_t>(stream)});
}

// dx [rows, 2 * inner], the gradient of x, from dy [rows, inner], that of out. The rest as geglu_launch.
extern "C" int geglu_backward_launch(void* dx, const void* dy, const void* x, int64_t rows, int64_t inner,
                                     int64_t dx_stride, int64_t dy_stride, int64_t x_stride, int gate_first, int tanh,
                                     int dtype, void* stream) {
  if (tanh != 0 && tanh != 1) return kBadOption;
  if (inner > INT64_MAX / 2) return kTooLarge;
  const Matrix matrices[] = {{dx, 2 * inner, dx_stride}, {dy, inner, dy_stride}, {x, 2 * inner, x_stride}};
  if (const int error = check(matrices, rows, dtype)) return error;
  if (gate_first != 0 && gate_first != 1) return kBadOption;
  if (rows == 0 || inner == 0) return cudaSuccess;
  const bool second = gate_first == 0;  // where the gate is
  GatedArguments a = {};
  a.value = half(x, inner, dtype, !second), a.gate = half(x, inner, dtype, second), a.dy = dy;
  a.d_value = half(dx, inner, dtype, !second), a.d_gate = half(dx, inner, dtype, second);
  a.value_stride = a.gate_stride = x_stride, a.dy_stride = dy_stride;
  a.d_value_stride = a.d_gate_stride = dx_stride;
  const Activation activation = tanh == 1 ? kGeluTanh : kGelu;
  return launch({a, rows, inner, activation, kBackward, dtype, static_cast<cudaStream_t>(stream)});
}

// d_gate and d_up, the gradients of gate and up, from dy, that of out: all [rows, width]. The rest as swiglu_launch.
extern "C" int swiglu_backward_launch(void* d_gate, void* d_up, const void* dy, const void* gate, const void* up,
                                      int64_t rows, int64_t width, int64_t d_gate_stride, int64_t d_up_stride,
                                      int64_t dy_stride, int64_t gate_stride, int64_t up_stride, int dtype,
                                      void* stream) {
  const Matrix matrices[] = {{d_gate, width, d_gate_stride},
                             {d_up, width, d_up_stride},
                             {dy, width, dy_stride},
                             {gate, width, gate_stride},
                             {up, width, up_stride}};
  if (const int error = check(matrices, rows, dtype)) return error;
  GatedArguments a = {};
  a.value = up, a.gate = gate, a.dy = dy, a.d_value = d_up, a.d_gate = d_gate;
  a.value_stride = up_stride, a.gate_stride = gate_stride, a.dy_stride = dy_stride;
  a.d_value_stride = d_up_stride, a.d_gate_stride = d_gate_stride;
  return launch({a, rows, width, kSilu, kBackward, dtype, static_cast<cudaStream_t>(stream)});
}

// What a launcher's return value means.
extern "C" const char* geglu_error(int code) {
  switch (code) {
    case kNegativeSize: return "rows and the width of a row must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "no tensor may be a null pointer when there are elements";
    case kStrideTooSmall: return "a row stride must be at least the width of the tensor's rows";
    case kBadOption: return "gate_first and tanh must be 0 or 1";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "rows times stride is more than 64-bit addresses can tell";
    case kNoCode: return "the code was compiled for an architecture before sm_75";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace geglu
