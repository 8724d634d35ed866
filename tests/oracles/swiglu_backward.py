"""Writes swiglu_backward.json: torch's autograd in float64 through transformers' Qwen3MLP, between its projections.

    python tests/oracles/swiglu_backward.py
"""

import torch
import transformers
from geglu import inputs, output, tensor, write
from swiglu import swiglu

if __name__ == "__main__":
    cases = []
    for seed in (50, 51):
        gate, up, dy = inputs(4, 24, seed), inputs(4, 24, seed + 10).flip(0), inputs(4, 24, seed + 20).roll(1, 0)
        leaves = gate.double().requires_grad_(), up.double().requires_grad_()
        swiglu(*leaves).backward(dy.double())
        cases.append(
            {
                "values": {},
                "tensors": {"gate": tensor(gate), "up": tensor(up), "dy": tensor(dy)},
                "outputs": {"d_gate": output(leaves[0].grad), "d_up": output(leaves[1].grad)},
            }
        )
    source = (
        f"torch {torch.__version__} autograd through transformers {transformers.__version__} "
        "transformers.models.qwen3.modeling_qwen3.Qwen3MLP"
    )
    write(__file__, "swiglu_backward", source, cases)
