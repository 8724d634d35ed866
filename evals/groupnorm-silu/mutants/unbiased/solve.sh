#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/groupnorm_silu.cu \
  'all.squares / static_cast<float>(length)' \
  'all.squares / static_cast<float>(length - 1)'
