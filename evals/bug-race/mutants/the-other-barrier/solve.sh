#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/cumulative_share.cu \
  '    __syncthreads();
    for (int w = 0; w < warp; ++w)' \
  '    for (int w = 0; w < warp; ++w)'
