#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  configs.py \
  'stages * (m * k + k * n)' \
  '(m * k + k * n)'
