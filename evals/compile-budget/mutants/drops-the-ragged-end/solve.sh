#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/l2_normalize.cu \
  'const bool wide = aligned && width % 4 == 0 && stride % 4 == 0;' \
  'const bool wide = aligned && stride % 4 == 0;'
