#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/l2_normalize.cu \
  'wide ? l2_normalize_rows<4> : l2_normalize_rows<1>' \
  'wide ? l2_normalize_rows<2> : l2_normalize_rows<1>'
