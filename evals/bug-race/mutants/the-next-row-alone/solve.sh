#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/cumulative_share.cu \
  '    __syncthreads();  // all have the sums, so that the next row may write them, and the total is there
    const float share = 1.0f / total;
' \
  '    const float share = 1.0f / total;
    __syncthreads();
'
