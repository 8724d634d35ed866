#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  bench.py \
  '        flush.zero_()
' \
  ''
