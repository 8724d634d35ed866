// What the launcher hands to a kernel, the same for every element type.
#pragma once
#include "division.h"

namespace transpose {
using namespace common;

struct TransposeArguments {
  void* out;
  const void *x, *x_end;                                           // its first element, and behind its last
  int64_t rows, columns;                                           // of x
  int64_t x_stride, out_stride, x_batch_stride, out_batch_stride;  // elements
  // Tiles are dealt out in panels: so many tiles of a row of tiles, then those below them, then the next panel.
  uint32_t panel_width, tile_rows, panels;
  Divisor by_panel_width, by_tile_rows, by_panels;
};

}  // namespace transpose
