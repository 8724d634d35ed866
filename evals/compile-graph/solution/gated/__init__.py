"""The gate of an MLP as one kernel."""

import torch
from torch import nn

from . import _kernels


@torch.library.custom_op("gated::gate", mutates_args=())
def _gate(gate: torch.Tensor, up: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    gate, up = gate.contiguous(), up.contiguous()
    out = torch.empty_like(gate)
    _kernels.launch(out, gate, up, scale)
    return out


@_gate.register_fake
def _(gate, up, scale):
    return torch.empty_like(gate, memory_format=torch.contiguous_format)


def gate(gate, up, scale):
    """silu(gate) * up * scale."""
    return _gate(gate, up, scale)


class Gate(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float32).reshape(1))

    def forward(self, gate_states, up_states):
        return gate(gate_states, up_states, self.scale)
