#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  torch-ext/squared_relu/functional.py \
  'ops.squared_relu(out, x)' \
  'out.copy_(torch.relu(x) ** 2)'
