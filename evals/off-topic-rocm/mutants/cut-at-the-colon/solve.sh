#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  flags.py \
  'dict.fromkeys(archs)' \
  'dict.fromkeys(arch.split(":")[0] for arch in archs)'
