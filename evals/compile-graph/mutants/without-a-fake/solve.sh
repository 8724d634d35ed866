#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  gated/__init__.py \
  '@_gate.register_fake
def _(gate, up, scale):
    return torch.empty_like(gate, memory_format=torch.contiguous_format)
' \
  ''
