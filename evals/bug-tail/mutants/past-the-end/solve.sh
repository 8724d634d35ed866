#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/row_mean.cu \
  'width / 8 * 8 : 0' \
  '(width + 7) / 8 * 8 : 0'
