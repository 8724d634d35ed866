#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/cumulative_share.cu \
  'total = before + own;' \
  'total = before;'
