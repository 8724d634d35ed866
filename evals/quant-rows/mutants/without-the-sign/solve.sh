#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/quant_rows.cu \
  'fmaxf(most, fabsf(to_float(pack.v[j])))' \
  'fmaxf(most, to_float(pack.v[j]))'
