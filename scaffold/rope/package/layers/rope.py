"""Rotary position embedding as transformers' models call it."""

from typing import Tuple

import torch
from torch import nn

from ..rope import rope


class ApplyRotaryPosEmb(nn.Module):
    """For ``apply_rotary_pos_emb`` of Llama, Qwen3 and their kin in transformers.

    transformers has one name, ``rotary_pos_emb``, for the functions of all its models, and two kinds compute something
    else. gpt_oss and openai_privacy_filter have a column of cos for each pair: they are refused. nanochat turns the
    other way, which no argument shows: leave ``rotary_pos_emb`` out of its mapping.
    """

    can_torch_compile = True
    has_backward = True

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        if cos.shape[-1] != q.shape[-1]:
            raise ValueError(
                f"ApplyRotaryPosEmb: cos must have a column for each of the {q.shape[-1]} elements of a head, as "
                f"Llama's and Qwen3's has, but has {cos.shape[-1]}; leave rotary_pos_emb out of this model's mapping"
            )
        return rope(q, k, cos, sin, cos.shape[-1], unsqueeze_dim == 1)
