#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  gated/__init__.py \
  '    return _gate(gate, up, scale)' \
  '    return _gate(gate, up, torch.full((1,), scale.item(), device=gate.device))'
