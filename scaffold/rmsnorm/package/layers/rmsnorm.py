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
        # torch computes in float32, and takes its epsilon for 16 bits as well.
        eps = torch.finfo(torch.float32).eps if self.eps is None else self.eps
        if len(self.normalized_shape) == 1:
            return rms_norm(x, self.weight, eps)
        weight = None if self.weight is None else self.weight.flatten()
        return rms_norm(x.flatten(-len(self.normalized_shape)), weight, eps).view(x.shape)


class DiffusersRMSNorm(nn.Module):
    """For ``diffusers.models.normalization.RMSNorm``: LTX-Video's norm1 and norm2, which have no weight. It rounds
    before the weight, and again before a bias."""

    can_torch_compile = True
    has_backward = True

    weight: Optional[torch.Tensor]
    bias: Optional[torch.Tensor]
    eps: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        out = rms_norm(hidden_states, self.weight, self.eps, 0.0, True)
        return out if self.bias is None else out + self.bias


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
