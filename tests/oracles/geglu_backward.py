"""Writes geglu_backward.json: torch's autograd in float64 through diffusers' GEGLU.

    python tests/oracles/geglu_backward.py
"""

import diffusers
import torch
from geglu import inputs, options, output, packed, tensor, write

if __name__ == "__main__":
    cases = []
    for gate_first, tanh in options():
        x = inputs(4, 32, seed=10 + 2 * gate_first + tanh)
        dy = inputs(4, 16, seed=20 + 2 * gate_first + tanh).flip(0)
        leaf = x.double().requires_grad_()
        packed(leaf, gate_first, tanh).backward(dy.double())
        cases.append(
            {
                "values": {"gate_first": gate_first, "tanh": tanh},
                "tensors": {"x": tensor(x), "dy": tensor(dy)},
                "outputs": {"dx": output(leaf.grad)},
            }
        )
    source = f"torch {torch.__version__} autograd through diffusers {diffusers.__version__} diffusers.models.activations.GEGLU"
    write(__file__, "geglu_backward", source, cases)
