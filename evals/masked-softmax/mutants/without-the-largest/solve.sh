#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/masked_softmax.cu \
  'const float most = reduce(own.most, largest[turn], [](float v, float w) { return fmaxf(v, w); });' \
  'const float most = own.most;'
