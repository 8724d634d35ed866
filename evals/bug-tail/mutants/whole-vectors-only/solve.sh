#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/row_mean.cu \
  'stride % 8 == 0 || rows == 1' \
  'width % 8 == 0'
