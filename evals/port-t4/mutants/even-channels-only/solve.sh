#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/short_conv.cu \
  'channels < 0) return' \
  'channels < 0 || channels % 2 != 0) return'
