"""Writes rms_norm_backward.json: the gradients that torch 2.11's autograd takes through torch.nn.functional.rms_norm in
float64, for inputs that their element type holds exactly. For Gemma's weight the module's own `1.0 + weight` is what is
passed as weight. Run it with the Python that has that torch."""

import json
import pathlib

import torch

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def described(dtype, tensor):
    return {"dtype": dtype, "shape": list(tensor.shape), "data": tensor.double().flatten().tolist()}


def result(tensor):
    return {"shape": list(tensor.shape), "data": tensor.flatten().tolist()}


def case(dtype, rows, width, weighted, eps, offset=0.0, scale=1.0):
    x = (torch.randn(rows, width) * scale).to(TYPES[dtype])
    dy = torch.randn(rows, width).to(TYPES[dtype])
    weight = torch.randn(width).to(TYPES[dtype])
    # The launcher takes a float.
    exact_eps = torch.tensor(eps, dtype=torch.float32).double().item()
    leaf, factor = x.double().requires_grad_(), weight.double().requires_grad_()
    out = torch.nn.functional.rms_norm(leaf, (width,), offset + factor if weighted else None, eps=exact_eps)
    out.backward(dy.double())
    tensors = {"x": described(dtype, x), "dy": described(dtype, dy)}
    outputs = {"dx": result(leaf.grad)}
    if weighted:
        tensors["weight"] = described(dtype, weight)
        outputs["dw"] = result(factor.grad)
        outputs["dw_f32"] = result(factor.grad)
    return {"values": {"eps": eps, "weight_offset": offset}, "tensors": tensors, "outputs": outputs}


def main():
    torch.manual_seed(20)
    cases = [
        case("f32", 3, 16, True, 1e-6),
        case("bf16", 5, 24, True, 1e-5, offset=1.0),
        case("f16", 4, 9, True, 1e-2, scale=0.125),
        case("f32", 2, 12, False, 1e-6),
        case("bf16", 7, 1, True, 0.5),
    ]
    source = f"torch {torch.__version__.split('+')[0]} torch.nn.functional.rms_norm and autograd, float64"
    text = json.dumps({"operation": "rms_norm_backward", "source": source, "cases": cases})
    (pathlib.Path(__file__).parent / "rms_norm_backward.json").write_text(text.replace('{"values"', '\n{"values"') + "\n")


main()
