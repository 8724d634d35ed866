#pragma once

__device__ inline float squared_relu_of(float v) { return v > 0.0f ? v * v : 0.0f; }
