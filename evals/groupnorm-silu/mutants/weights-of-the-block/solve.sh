#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/groupnorm_silu.cu \
  'blockIdx.x % a.groups * a.depth' \
  'static_cast<int64_t>(blockIdx.x) * a.depth'
