#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  cache.py \
  '0 if free <= 0 else ' \
  ''
