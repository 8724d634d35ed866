#pragma once

#include <cstdint>

extern "C" int row_amax_launch(void* out, const void* x, int64_t rows, int64_t width, void* stream);
extern "C" int scale_rows_launch(void* x, const void* scale, int64_t rows, int64_t width, void* stream);
