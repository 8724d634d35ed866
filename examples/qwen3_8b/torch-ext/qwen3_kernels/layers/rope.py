"""Rotary position embedding as transformers' models call it."""

from typing import Tuple

import torch
from torch import nn

from ..rope import rope


class ApplyRotaryPosEmb(nn.Module):
    """For ``apply_rotary_pos_emb`` of Llama, Qwen3 and their kin in transformers (the layer ``rotary_pos_emb``)."""

    can_torch_compile = True
    has_backward = True

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        return rope(q, k, cos, sin, cos.shape[-1], unsqueeze_dim == 1)
