#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  patch.py \
  'norm.forward = types.MethodType(_forward, norm)' \
  'type(norm).forward = _forward'
