#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  configs.py \
  '<= shared_bytes' \
  '< shared_bytes'
