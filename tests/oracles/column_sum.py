"""Writes column_sum.json: the gradient that torch's autograd gives the bias of torch.nn.functional.linear in float64, for
gradients of its output that their element type holds exactly.

    python tests/oracles/column_sum.py
"""

import json
import pathlib

import torch

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def described(dtype, tensor):
    return {"dtype": dtype, "shape": list(tensor.shape), "data": tensor.double().flatten().tolist()}


def result(tensor):
    return {"shape": list(tensor.shape), "data": tensor.flatten().tolist()}


def case(dtype, rows, width, outputs):
    x = torch.randn(rows, width).to(TYPES[dtype])
    bias = torch.zeros(width, dtype=torch.float64, requires_grad=True)
    out = torch.nn.functional.linear(torch.zeros(rows, 1).double(), torch.zeros(width, 1).double(), bias)
    out.backward(x.double())
    return {
        "values": {},
        "tensors": {"x": described(dtype, x)},
        "outputs": {name: result(bias.grad) for name in outputs},
    }


def main():
    torch.manual_seed(41)
    cases = [
        case("f32", 7, 5, ["out_f32"]),
        case("bf16", 40, 3, ["out", "out_f32"]),
        case("f16", 1, 9, ["out"]),
    ]
    source = f"torch {torch.__version__.split('+')[0]} torch.nn.functional.linear and autograd, float64"
    text = json.dumps({"operation": "column_sum", "source": source, "cases": cases})
    (pathlib.Path(__file__).parent / "column_sum.json").write_text(text.replace('{"values"', '\n{"values"') + "\n")


main()
