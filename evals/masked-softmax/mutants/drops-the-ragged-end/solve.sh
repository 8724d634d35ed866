#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/masked_softmax.cu \
  'const bool wide = a.width % kWide<T> == 0 &&' \
  'a.width -= a.width % kWide<T>;
  const bool wide ='
