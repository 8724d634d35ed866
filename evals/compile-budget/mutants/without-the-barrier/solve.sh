#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/l2_normalize.cu \
  '  __syncthreads();
  sum = 0.0f;' \
  '  sum = 0.0f;'
