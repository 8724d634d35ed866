// Candidates in all three types.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "rms_norm.cuh"

#define LAUNCH_BY_DTYPE(kernel, call)                                    \
  ((call).dtype == 0   ? launch_rows(kernel<float>, call)                \
   : (call).dtype == 1 ? launch_rows(kernel<__half>, call)               \
                       : launch_rows(kernel<__nv_bfloat16>, call))
