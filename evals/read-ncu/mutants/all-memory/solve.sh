#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  answer.json \
  '"bound": "occupancy"' \
  '"bound": "memory"'
