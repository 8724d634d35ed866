#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/short_conv.cu \
  'kRows = 128' \
  'kRows = 384'
