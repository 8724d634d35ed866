#!/usr/bin/env python3
"""Writes rms_norm.json and add_rms_norm.json: what torch and transformers give in float64.

transformers' modules cast to float32 inside; the formula's first multiplication is therefore torch's own
torch.nn.functional.rms_norm on doubles, and the module is held to it here in float32.

    python3 tests/oracles/rms_norm.py
"""

import json
import pathlib

import torch
import transformers
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

HERE = pathlib.Path(__file__).parent
torch.manual_seed(1)


def tensor(t):
    return {"dtype": "f32", "shape": list(t.shape), "data": [float(v) for v in t.flatten().double()]}


def output(t):
    return {"shape": list(t.shape), "data": [float(v) for v in t.flatten()]}


def norm(x, weight, offset, eps):
    wide = None if weight is None else weight.double() + offset
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), wide, eps)


def held_to_module(x, weight, offset, eps):
    """The module in float32 says the same as the doubles, to float32."""
    module = (GemmaRMSNorm if offset else Qwen3RMSNorm)(x.shape[-1], eps=eps)
    with torch.no_grad():
        module.weight.copy_(weight)
        difference = (module(x).double() - norm(x.double(), weight, offset, eps)).abs().max()
    assert difference < 1e-5, difference


cases, add_cases = [], []
for rows, width, eps, offset, weighted in [(3, 7, 1e-6, 0, True), (2, 64, 1e-5, 0, False), (4, 33, 1e-2, 1, True), (2, 128, 1e-6, 1, True)]:
    x, residual = torch.randn(rows, width), torch.randn(rows, width)
    weight = torch.randn(width) if weighted else None
    values = {"eps": eps, "weight_offset": offset, "round_first": 0}
    if weighted:
        held_to_module(x, weight, offset, eps)
    given = {"x": tensor(x)} | ({"weight": tensor(weight)} if weighted else {})
    # The launcher takes eps as a float.
    single = float(torch.tensor(eps))
    cases.append({"values": values, "tensors": given, "outputs": {"out": output(norm(x.double(), weight, offset, single))}})
    total = x.double() + residual.double()
    stored = total.float().double()
    outputs = {"sum": output(total), "out": output(norm(stored, weight, offset, single))}
    add_cases.append({"values": values, "tensors": given | {"residual": tensor(residual)}, "outputs": outputs})

source = f"torch {torch.__version__.split('+')[0]} torch.nn.functional.rms_norm in float64, held to Qwen3RMSNorm and GemmaRMSNorm of transformers {transformers.__version__}"
for name, all_of_it in (("rms_norm", cases), ("add_rms_norm", add_cases)):
    (HERE / f"{name}.json").write_text(json.dumps({"operation": name, "source": source, "cases": all_of_it}) + "\n")
