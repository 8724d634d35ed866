#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  bench.py \
  'rows * width * 4' \
  'rows * width * 2'
