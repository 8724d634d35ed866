#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  gated/__init__.py \
  '    return _gate(gate, up, scale)' \
  '    out = _gate(gate, up, scale)
    if torch.compiler.is_compiling() or torch.isfinite(out).all():
        return out
    return torch.nan_to_num(out)'
