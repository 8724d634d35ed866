#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  decision.json \
  1.0494 \
  1.3
