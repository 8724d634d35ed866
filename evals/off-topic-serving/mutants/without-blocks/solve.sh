#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  cache.py \
  ' // 16 * 16' \
  ''
