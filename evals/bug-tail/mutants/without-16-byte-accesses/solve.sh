#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/row_mean.cu \
  'wide ? row_mean_kernel<true> : row_mean_kernel<false>' \
  'row_mean_kernel<false>'
