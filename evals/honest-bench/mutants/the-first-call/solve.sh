#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  bench.py \
  'WARM_UP, CALLS = 10, 51' \
  'WARM_UP, CALLS = 0, 1'
