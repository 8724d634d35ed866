#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/short_conv.cu \
  't >= 0 && t < time && c < channels ? x' \
  't >= begin && t < time && c < channels ? x'
