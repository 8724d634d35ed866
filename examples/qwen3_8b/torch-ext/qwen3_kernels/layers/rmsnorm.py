"""RMSNorm as models have it. Each lends its forward to a module that has the members named here."""

from typing import Optional

import torch
from torch import nn

from ..rmsnorm import rms_norm


class RMSNorm(nn.Module):
    """For ``torch.nn.RMSNorm``, which LTX-Video's attention uses for q and k."""

    can_torch_compile = True
    has_backward = True

    normalized_shape: tuple
    weight: Optional[torch.Tensor]
    eps: Optional[float]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        if len(self.normalized_shape) == 1:
            return rms_norm(x, self.weight, eps)
        weight = None if self.weight is None else self.weight.flatten()
        return rms_norm(x.flatten(-len(self.normalized_shape)), weight, eps).view(x.shape)


class DiffusersRMSNorm(nn.Module):
    """For ``diffusers.models.normalization.RMSNorm`` without a bias: LTX-Video's norm1 and norm2, which have no weight
    either. It rounds before the weight."""

    can_torch_compile = True
    has_backward = True

    weight: Optional[torch.Tensor]
    eps: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return rms_norm(hidden_states, self.weight, self.eps, 0.0, True)


class TransformersRMSNorm(nn.Module):
    """For the RMSNorm of Llama, Qwen2, Qwen3, Mistral and their kin in transformers. It rounds before the weight."""

    can_torch_compile = True
    has_backward = True

    weight: torch.Tensor
    variance_epsilon: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return rms_norm(hidden_states, self.weight, self.variance_epsilon, 0.0, True)


class GemmaRMSNorm(nn.Module):
    """For the RMSNorm of Gemma in transformers, which multiplies by ``1 + weight``."""

    can_torch_compile = True
    has_backward = True

    weight: torch.Tensor
    eps: float

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.weight, self.eps, 1.0)
