#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  flags.py \
  'dict.fromkeys(archs)' \
  'sorted(set(archs))'
