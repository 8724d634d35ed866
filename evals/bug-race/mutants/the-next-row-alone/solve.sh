#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/cumulative_share.cu \
  '    __syncthreads();  // all have the sums, and the total is there
' \
  ''
