"""Gated feed-forwards as models have them. Each lends its forward to a module that has the members named here.

The modules are named after what they compute, and a forward cannot see which activation the module that adopts it was
made with: map them to modules of this activation only.
"""

import torch
from torch import nn

from ..geglu import geglu, swiglu, swiglu_packed


class GEGLU(nn.Module):
    """For ``diffusers.models.activations.GEGLU``: a projection, and its first half times the gelu of its second."""

    can_torch_compile = True
    has_backward = True

    proj: nn.Module

    def forward(self, hidden_states: torch.Tensor, *args, **kwargs) -> torch.Tensor:
        return geglu(self.proj(hidden_states))


class SwiGLU(nn.Module):
    """For ``diffusers.models.activations.SwiGLU``: a projection, and its first half times the silu of its second."""

    can_torch_compile = True
    has_backward = True

    proj: nn.Module

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return swiglu_packed(self.proj(hidden_states))


class SiluAndMul(nn.Module):
    """The silu of a tensor's first half times its second."""

    can_torch_compile = True
    has_backward = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return swiglu_packed(x, True)


class SwiGLUMLP(nn.Module):
    """For the feed-forward of Llama, Qwen2, Qwen3 and their kin in transformers, with ``hidden_act="silu"``."""

    can_torch_compile = True
    has_backward = True

    gate_proj: nn.Module
    up_proj: nn.Module
    down_proj: nn.Module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))


class PackedSwiGLUMLP(nn.Module):
    """For the feed-forward of Phi-3 in transformers, whose projection has the gate first."""

    can_torch_compile = True
    has_backward = True

    gate_up_proj: nn.Module
    down_proj: nn.Module

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return self.down_proj(swiglu_packed(self.gate_up_proj(hidden_states), True))
