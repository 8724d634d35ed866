"""Writes bias_gelu_scale_residual.json: what torch gives in float64 for a vision transformer's residual with LayerScale, for
inputs that their element type holds exactly.

    python tests/oracles/bias_gelu_scale_residual.py
"""

import json
import pathlib

import torch

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def described(dtype, tensor):
    return {"dtype": dtype, "shape": list(tensor.shape), "data": tensor.double().flatten().tolist()}


def case(dtype, rows, width, tanh, wide=1.0):
    drawn = {
        "residual": torch.randn(rows, width),
        "x": torch.randn(rows, width) * wide,
        "bias": torch.randn(width),
        "scale": torch.randn(width) * 0.1,
    }
    given = {name: tensor.to(TYPES[dtype]) for name, tensor in drawn.items()}
    exact = {name: tensor.double() for name, tensor in given.items()}
    gelu = torch.nn.GELU(approximate="tanh" if tanh else "none")
    out = exact["residual"] + exact["scale"] * gelu(exact["x"] + exact["bias"])
    return {
        "values": {"tanh": float(tanh)},
        "tensors": {name: described(dtype, tensor) for name, tensor in given.items()},
        "outputs": {"out": {"shape": list(out.shape), "data": out.flatten().tolist()}},
    }


def main():
    torch.manual_seed(42)
    cases = [
        case("f32", 3, 16, False),
        case("bf16", 4, 9, True),
        case("f16", 2, 24, False, wide=4.0),
        case("bf16", 2, 12, True, wide=4.0),
        case("f32", 5, 1, True),
    ]
    source = f"torch {torch.__version__.split('+')[0]} torch.nn.GELU, float64"
    text = json.dumps({"operation": "bias_gelu_scale_residual", "source": source, "cases": cases})
    path = pathlib.Path(__file__).parent / "bias_gelu_scale_residual.json"
    path.write_text(text.replace('{"values"', '\n{"values"') + "\n")


main()
