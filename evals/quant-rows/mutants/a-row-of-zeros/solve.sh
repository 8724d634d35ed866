#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/quant_rows.cu \
  '  if (scale == 0.0f) return 0;
' \
  ''
