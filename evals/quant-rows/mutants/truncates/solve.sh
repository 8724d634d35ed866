#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/quant_rows.cu \
  'rintf(__fdiv_rn(v, scale))' \
  'truncf(__fdiv_rn(v, scale))'
