#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  torch-ext/squared_relu/functional.py \
  'x = x.contiguous()' \
  'x = x.detach()'
