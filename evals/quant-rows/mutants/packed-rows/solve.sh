#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/quant_rows.cu \
  'a.x + row * a.x_stride' \
  'a.x + row * a.width'
