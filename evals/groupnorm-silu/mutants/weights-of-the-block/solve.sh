#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/groupnorm_silu.cu \
  'group % a.groups * a.depth' \
  'group * a.depth'
