#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  patch.py \
  'self.variance_epsilon' \
  '1e-6'
