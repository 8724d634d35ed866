#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/masked_softmax.cu \
  'keep.v[j] != 0 ? weight : 0.0f' \
  'weight * static_cast<float>(keep.v[j] != 0)'
