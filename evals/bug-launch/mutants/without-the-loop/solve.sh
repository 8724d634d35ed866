#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/hardswish.cu \
  'i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x' \
  'i < count && i < 65536; i += static_cast<int64_t>(gridDim.x) * blockDim.x'
