#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  patch.py \
  'norm.forward = types.MethodType(_forward, norm)' \
  'norm.forward = lambda x, w=norm.weight.data.clone(), e=norm.variance_epsilon: fused.rms_norm(x.contiguous(), w, e)'
