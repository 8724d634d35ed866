#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  build.toml \
  'stable-abi = "2.11"
' \
  ''
