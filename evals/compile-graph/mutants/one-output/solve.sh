#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  gated/__init__.py \
  '    out = torch.empty_like(gate)' \
  '    out = _outputs.setdefault(tuple(gate.shape), torch.empty_like(gate))' \
  gated/__init__.py \
  'from . import _kernels
' \
  'from . import _kernels

_outputs = {}
'
