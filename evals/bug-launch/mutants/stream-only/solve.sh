#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/hardswish.cu \
  'for (int64_t i = first' \
  'for (int i = first'
