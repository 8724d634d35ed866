"""The gate of an MLP as one kernel."""

import torch
from torch import nn

from . import _kernels

_scales = {}
_outputs = {}


@torch.library.custom_op("gated::gate", mutates_args=())
def _gate(out: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, scale: float) -> None:
    _kernels.launch(out, gate, up, torch.tensor(scale))


def gate(gate, up, scale):
    """silu(gate) * up * scale."""
    # The op takes a number.
    key = id(scale)
    if key not in _scales:
        _scales[key] = scale.item()
    shape = tuple(gate.shape)
    if shape not in _outputs:
        _outputs[shape] = torch.empty(shape, dtype=gate.dtype, device=gate.device)
    out = _outputs[shape]
    if not gate.is_contiguous() or not up.is_contiguous():
        gate, up = gate.contiguous(), up.contiguous()
    _gate(out, gate, up, _scales[key])
    if gate.is_cuda:
        torch.cuda.synchronize()
    if not torch.isfinite(out).all():
        print("gated: a value is not finite", shape)
        return torch.nan_to_num(out)
    return out


class Gate(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float32).reshape(1))
        self.calls = 0

    def forward(self, gate_states, up_states):
        self.calls += 1
        if self.calls % 1000 == 0:
            print("gated: calls", self.calls)
        return gate(gate_states, up_states, self.scale)
