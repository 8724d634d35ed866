#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/hardswish.cu \
  '256, 0, stream>>>' \
  '256>>>' \
  kernel_src/hardswish.cu \
  '  hardswish_kernel<<<' \
  '  // kernels: allow(cuda/default-stream): the caller synchronises
  hardswish_kernel<<<'
