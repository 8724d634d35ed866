#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  patch.py \
  'type(norm) is Qwen3RMSNorm and' \
  'isinstance(norm, Qwen3RMSNorm) and'
