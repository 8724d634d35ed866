// The launcher: it checks every argument, picks a kernel and launches it.
//
// Matrices and rows are any distance apart, elements of a row side by side. out may not overlap x. Nothing here waits for
// the device.
#include <cuda_runtime.h>

#include <cstdint>

#include "arguments.h"
#include "kernels.h"
#include "launcher.h"

namespace transpose {
using namespace common;

namespace {

enum OwnErrorCode : int {
  kMisaligned = 10005,
  kTooLarge = 10006,
  kNoCode = 10007,
};

// A tensor as a caller passes it: `rows` rows of so many elements a matrix.
struct Matrices {
  const void* data;
  int64_t rows, width, stride, batch_stride;
};

// 0, or why this tensor is refused. Matrices may lie one behind another, or side by side as the heads of attention do.
int check(Matrices m, int64_t batch, int64_t size, bool written) {
  if (batch < 0 || m.rows < 0 || m.width < 0) return kNegativeSize;
  // What there is one of has no next one, and its stride may be anything.
  if (m.rows <= 1) m.stride = m.width;
  if (batch <= 1) m.batch_stride = 0;
  if (m.stride < m.width || m.batch_stride < 0) return kStrideTooSmall;
  int64_t matrix = 0, all = 0, bytes = 0;
  if (__builtin_mul_overflow(m.rows, m.stride, &matrix) || __builtin_mul_overflow(batch, m.batch_stride, &all) ||
      __builtin_add_overflow(matrix, all, &bytes) || __builtin_mul_overflow(bytes, size, &bytes)) {
    return kTooLarge;
  }
  if (batch == 0 || m.rows == 0 || m.width == 0) return divides(size, m.data) ? 0 : kMisaligned;
  const bool behind = m.batch_stride >= matrix - m.stride + m.width;
  const bool beside = m.batch_stride >= m.width && (m.rows == 1 || m.stride >= all - m.batch_stride + m.width);
  if (written && batch > 1 && !behind && !beside) return kStrideTooSmall;
  if (m.data == nullptr) return kNullPointer;
  return divides(size, m.data) ? 0 : kMisaligned;
}

// Whether every row of every matrix is a whole number of 16-byte packs, from an aligned address on.
bool is_whole_packs(const Matrices& m, int64_t batch, int64_t size) {
  return divides(16, m.data) && m.width * size % 16 == 0 && (m.rows == 1 || m.stride * size % 16 == 0) &&
         (batch == 1 || m.batch_stride * size % 16 == 0);
}

// Deals out tiles of so many of `rows` and of x's columns; answers how many there are, or 0 where a grid cannot have them.
unsigned deal_out(TransposeArguments& a, int64_t batch, int64_t rows, int64_t tile_rows, int64_t tile_columns) {
  const int64_t down = (rows - 1) / tile_rows + 1, across = (a.columns - 1) / tile_columns + 1;
  // Panels of the same width, so that there are fewer than one tile a panel too many.
  const int64_t panels = (across - 1) / kPanelWidth + 1, width = (across - 1) / panels + 1;
  int64_t tiles = 0;
  if (__builtin_mul_overflow(panels * width, down, &tiles) || __builtin_mul_overflow(tiles, batch, &tiles) ||
      tiles > INT32_MAX) {
    return 0;
  }
  a.panel_width = static_cast<uint32_t>(width), a.by_panel_width = Divisor(a.panel_width);
  a.tile_rows = static_cast<uint32_t>(down), a.by_tile_rows = Divisor(a.tile_rows);
  a.panels = static_cast<uint32_t>(panels), a.by_panels = Divisor(a.panels);
  return static_cast<unsigned>(tiles);
}

}  // namespace

// out [batch, columns, rows] = x [batch, rows, columns] with its rows and columns exchanged. Strides are elements from row
// to row, batch strides from matrix to matrix. dtype: 0 f32, 1 f16, 2 bf16, of which only the size matters: any elements
// of 4 or 2 bytes are moved as they are. Returns 0, a cudaError_t, or a code that transpose_error explains; with such a
// code nothing was launched. An empty tensor launches nothing and returns 0.
extern "C" int transpose_launch(void* out, const void* x, int64_t batch, int64_t rows, int64_t columns,
                                int64_t out_stride, int64_t x_stride, int64_t out_batch_stride, int64_t x_batch_stride,
                                int dtype, void* stream) {
  if (dtype != kF32 && dtype != kF16 && dtype != kBF16) return kUnknownType;
  const int size = dtype == kF32 ? 4 : 2;
  const Matrices from = {x, rows, columns, x_stride, x_batch_stride};
  const Matrices to = {out, columns, rows, out_stride, out_batch_stride};
  if (const int error = check(from, batch, size, false)) return error;
  if (const int error = check(to, batch, size, true)) return error;
  if (batch == 0 || rows == 0 || columns == 0) return cudaSuccess;

  TransposeArguments a = {};
  a.out = out, a.x = x, a.rows = rows, a.columns = columns;
  a.x_stride = x_stride, a.out_stride = out_stride;
  a.x_batch_stride = x_batch_stride, a.out_batch_stride = out_batch_stride;
  a.x_end = static_cast<const char*>(x) + ((batch - 1) * x_batch_stride + (rows - 1) * x_stride + columns) * size;
  const void* kernel = nullptr;
  int64_t places = rows;  // of a row of out, from the one on where its tiles begin
  int64_t tile_rows = kUnalignedRows, tile_columns = kUnalignedPacks * (16 / size);
  int threads = kUnalignedThreads;
  if (is_whole_packs(from, batch, size) && is_whole_packs(to, batch, size)) {
    int arch = 0;
    if (const cudaError_t error = code_arch(transpose_unaligned_kernel_2(), arch)) return error;
    const Tuning* tuning = find_transpose_tuning(arch, size);
    if (tuning == nullptr) return kNoCode;
    const Layout& layout = tuning->layout;
    kernel = size == 2 ? transpose_blocks_kernel_2(layout) : transpose_blocks_kernel_4(layout);
    tile_rows = layout.down * (16 / size), tile_columns = layout.across * (16 / size);
    threads = layout.down * layout.across;
  } else {
    kernel = size == 2 ? transpose_unaligned_kernel_2() : transpose_unaligned_kernel_4();
    places += 32 / size - 1;
  }
  const unsigned tiles = deal_out(a, batch, places, tile_rows, tile_columns);
  if (tiles == 0) return kTooLarge;
  void* parameters[] = {&a};
  const cudaStream_t on = static_cast<cudaStream_t>(stream);
  return cleared(cudaLaunchKernel(kernel, dim3(tiles), dim3(threads), parameters, 0, on));
}

// What the launcher's return value means.
extern "C" const char* transpose_error(int code) {
  switch (code) {
    case kNegativeSize: return "batch, rows and columns must not be negative";
    case kUnknownType: return "dtype must be 0 (f32), 1 (f16) or 2 (bf16)";
    case kNullPointer: return "no tensor may be a null pointer when there are elements";
    case kStrideTooSmall: return "a row stride must be at least a row, a batch stride not negative; out may not overlap itself";
    case kMisaligned: return "a pointer must be a multiple of its elements' size";
    case kTooLarge: return "the tensors are more than 64-bit addresses can tell, or their tiles more than a grid has";
    case kNoCode: return "the code was compiled for an architecture before sm_75";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}

}  // namespace transpose
