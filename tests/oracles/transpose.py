"""Writes transpose.json: torch.Tensor.transpose of the last two dimensions, for numbers that their type holds exactly.

    python tests/oracles/transpose.py
"""

import json
import pathlib

import torch

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def described(dtype, tensor):
    return {"dtype": dtype, "shape": list(tensor.shape), "data": tensor.double().flatten().tolist()}


def case(dtype, *shape):
    x = torch.randn(*shape).to(TYPES[dtype])
    out = x.transpose(-2, -1).contiguous()
    return {"values": {}, "tensors": {"x": described(dtype, x)}, "outputs": {"out": described(dtype, out)}}


def main():
    torch.manual_seed(40)
    cases = [case("f32", 1, 5, 3), case("bf16", 3, 4, 7), case("f16", 2, 1, 6), case("bf16", 1, 9, 1)]
    source = f"torch {torch.__version__.split('+')[0]} torch.Tensor.transpose"
    text = json.dumps({"operation": "transpose", "source": source, "cases": cases})
    (pathlib.Path(__file__).parent / "transpose.json").write_text(text.replace('{"values"', '\n{"values"') + "\n")


main()
