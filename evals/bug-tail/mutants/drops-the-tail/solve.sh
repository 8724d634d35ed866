#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/row_mean.cu \
  'i < width; i += 32) to[i]' \
  'i < whole; i += 32) to[i]'
