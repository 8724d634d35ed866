"""LayerNorm and blocks of diffusion transformers. Each lends its forward to a module that has the members named here.

None has a gradient: `kernelize` for training leaves such modules as they are.
"""

from typing import Optional, Tuple

import torch
from torch import nn

from ..adaln import adaln, gate_residual, gate_residual_adaln, layer_norm


class LayerNorm(nn.Module):
    """For ``torch.nn.LayerNorm``."""

    can_torch_compile = True
    has_backward = False

    normalized_shape: tuple
    weight: Optional[torch.Tensor]
    bias: Optional[torch.Tensor]
    eps: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if len(self.normalized_shape) == 1:
            return layer_norm(input, self.weight, self.bias, self.eps)
        weight = None if self.weight is None else self.weight.flatten()
        bias = None if self.bias is None else self.bias.flatten()
        out = layer_norm(input.flatten(-len(self.normalized_shape)), weight, bias, self.eps)
        return out.view(input.shape)


class LTXVideoTransformerBlock(nn.Module):
    """For ``diffusers.models.transformers.transformer_ltx.LTXVideoTransformerBlock``: each norm with its modulation in
    one pass, the second one also with the residual in front of it. The attentions and the feed-forward are the
    module's own."""

    can_torch_compile = True
    has_backward = False

    norm1: nn.Module
    attn1: nn.Module
    norm2: nn.Module
    attn2: nn.Module
    ff: nn.Module
    scale_shift_table: torch.Tensor

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        temb: torch.Tensor,
        image_rotary_emb: Optional[Tuple[torch.Tensor, torch.Tensor]] = None,
        encoder_attention_mask: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        table = self.scale_shift_table.to(temb.device)
        ada = temb.reshape(temb.shape[0], temb.shape[1], table.shape[0], -1)
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = ada.unbind(dim=2)

        modulated = adaln(
            hidden_states, scale_msa, shift_msa, table[1], table[0], self.norm1.weight, None, self.norm1.eps
        )
        attention = self.attn1(hidden_states=modulated, encoder_hidden_states=None, image_rotary_emb=image_rotary_emb)
        hidden_states = gate_residual(hidden_states, attention, gate_msa, table[2])

        attention = self.attn2(
            hidden_states,
            encoder_hidden_states=encoder_hidden_states,
            image_rotary_emb=None,
            attention_mask=encoder_attention_mask,
        )
        modulated, hidden_states = gate_residual_adaln(
            hidden_states,
            attention,
            None,
            scale_mlp,
            shift_mlp,
            None,
            table[4],
            table[3],
            self.norm2.weight,
            None,
            self.norm2.eps,
        )
        return gate_residual(hidden_states, self.ff(modulated), gate_mlp, table[5])
