// How a launch is laid out, for an H100 (132 SMs of 2,048 threads and 65,536 registers).
#pragma once

// X(most packs a row, fewest rows, threads a block, packs a thread of a row, rows a block, blocks an SM): the first that
// fits is taken. A pack is an access of 16 bytes. Several rows a block share their barriers, and each thread's weights;
// few rows are spread over as many blocks instead. Blocks an SM bound the registers: 65,536 / (threads * blocks).
#define LAYOUTS(X)             \
  X(96, 1024, 96, 1, 4, 10)    \
  X(128, 1024, 128, 1, 4, 8)   \
  X(192, 1024, 192, 1, 4, 5)   \
  X(256, 1024, 256, 1, 4, 4)   \
  X(384, 1024, 384, 1, 2, 3)   \
  X(512, 1024, 256, 2, 3, 3)   \
  X(768, 1024, 384, 2, 2, 2)   \
  X(1024, 1024, 512, 2, 2, 2)  \
  X(128, 0, 128, 1, 1, 8)      \
  X(256, 0, 256, 1, 1, 4)      \
  X(512, 0, 512, 1, 1, 2)      \
  X(1024, 0, 512, 2, 1, 2)     \
  X(1536, 0, 384, 4, 1, 3)     \
  X(2048, 0, 512, 4, 1, 2)     \
  X(4096, 0, 512, 8, 1, 2)  // f32 alone

constexpr int kAnyThreads = 512;  // a row, of layer_norm_gelu_any
