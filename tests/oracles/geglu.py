"""Writes geglu.json: what diffusers' GEGLU gives in float64.

The module itself is called, with its projection taken out. The tanh approximation and the other order of the halves
are not in it: there the gate goes through diffusers' GELU(approximate="tanh"), and the halves are swapped.

    python tests/oracles/geglu.py
"""

import json
import pathlib

import diffusers
import torch
from diffusers.models.activations import GEGLU, GELU


def inputs(rows, width, seed):
    """Normal ones, and what is hard: the far tails, zeros, gates around the derivative's zero."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, width, generator=generator)
    x[1] *= 4.0
    x[2] *= 2.0**-12
    hard = [0.0, -0.0, -0.751, -0.7518, 0.7518, -5.0, -8.0, -13.0, 5.0, 13.0, 40.0, -40.0]
    x[3, : len(hard)] = torch.tensor(hard)
    x[3, -len(hard) :] = torch.tensor(hard)
    return x


def packed(x, gate_first, tanh):
    """diffusers' GEGLU of x, which lies as the options say."""
    module = GEGLU(2, 2).double()
    module.proj = torch.nn.Identity()
    if tanh:
        module.gelu = GELU(2, 2, approximate="tanh").double().gelu
    halves = x.chunk(2, dim=-1)
    return module(torch.cat(halves[::-1], dim=-1) if gate_first else x)


def tensor(data):
    return {"dtype": "f32", "shape": list(data.shape), "data": data.float().flatten().tolist()}


def output(data):
    return {"shape": list(data.shape), "data": data.flatten().tolist()}


def options():
    return [(gate_first, tanh) for gate_first in (0, 1) for tanh in (0, 1)]


def write(path, operation, source, cases):
    fixture = {"operation": operation, "source": source, "cases": cases}
    path = pathlib.Path(path).with_suffix(".json")
    path.write_text(json.dumps(fixture, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    cases = []
    for gate_first, tanh in options():
        x = inputs(4, 32, seed=2 * gate_first + tanh)
        cases.append(
            {
                "values": {"gate_first": gate_first, "tanh": tanh},
                "tensors": {"x": tensor(x)},
                "outputs": {"out": output(packed(x.double(), gate_first, tanh))},
            }
        )
    write(__file__, "geglu", f"diffusers {diffusers.__version__} diffusers.models.activations.GEGLU", cases)
