#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/quant_rows.cu \
  '__float2int_rn(quotient)' \
  '__float2int_rz(quotient)'
