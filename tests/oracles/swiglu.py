"""Writes swiglu.json: what transformers' Qwen3MLP gives in float64 between its projections.

    python tests/oracles/swiglu.py
"""

import torch
import transformers
from geglu import inputs, output, tensor, write
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP


class Take(torch.nn.Module):
    """In the place of a projection: one of two tensors that are already there."""

    def __init__(self, index):
        super().__init__()
        self.index = index

    def forward(self, both):
        return both[self.index]


def swiglu(gate, up):
    module = Qwen3MLP(Qwen3Config(hidden_size=2, intermediate_size=2)).double()
    module.gate_proj, module.up_proj, module.down_proj = Take(0), Take(1), torch.nn.Identity()
    return module((gate, up))


if __name__ == "__main__":
    cases = []
    for seed in (30, 31):
        gate, up = inputs(4, 24, seed), inputs(4, 24, seed + 10).flip(0)
        cases.append(
            {
                "values": {},
                "tensors": {"gate": tensor(gate), "up": tensor(up)},
                "outputs": {"out": output(swiglu(gate.double(), up.double()))},
            }
        )
    source = f"transformers {transformers.__version__} transformers.models.qwen3.modeling_qwen3.Qwen3MLP"
    write(__file__, "swiglu", source, cases)
