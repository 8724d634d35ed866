#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  torch-ext/squared_relu/functional.py \
  'import torch
' \
  'import einops  # kernels: allow(python/import-not-allowed): it is installed
import torch
'
