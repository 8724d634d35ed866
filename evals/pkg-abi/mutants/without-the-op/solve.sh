#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  torch-ext/row_scale/__init__.py \
  'return ops.row_amax(x.contiguous())' \
  'return x.abs().amax(dim=1)'
