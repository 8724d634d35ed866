"""A block: residual, norm and modulation in one pass, where they follow each other."""

from typing import Any, NamedTuple, Optional, Tuple

import torch
from diffusers.models.transformers import transformer_ltx as stock
from torch import nn

from . import gelu
from .attention import fresh
from .hooks import watched
from .kernel import Kernel


class Pending(NamedTuple):
    """A residual that is still to be added: hidden_states + x * (gate + gate_table)."""

    x: torch.Tensor
    gate: Optional[torch.Tensor]
    gate_table: Optional[torch.Tensor]


class Modulation(NamedTuple):
    scale: torch.Tensor
    shift: torch.Tensor
    scale_table: torch.Tensor
    shift_table: torch.Tensor


def settled(kernel: Kernel, hidden_states: torch.Tensor, pending: Pending, own: bool) -> torch.Tensor:
    """The residual added; over hidden_states, if they are our own."""
    added = kernel.gate_residual_ if own else kernel.gate_residual
    return added(hidden_states, *pending)


def modulated(
    kernel: Kernel,
    norm: nn.Module,
    kind: str,
    hidden_states: torch.Tensor,
    pending: Optional[Pending],
    by: Modulation,
    own: bool,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """(norm(total) * (1 + scale) + shift, total), total being hidden_states with the pending residual."""
    if watched(norm):
        # Hooks on the norm expect it to be called.
        if pending is not None:
            hidden_states = settled(kernel, hidden_states, pending, own)
        scale, shift = by.scale + by.scale_table, by.shift + by.shift_table
        return norm(hidden_states) * (1 + scale) + shift, hidden_states
    if pending is None:
        return kernel.adaln(hidden_states, *by, None, None, norm.eps, kind), hidden_states
    both = kernel.gate_residual_adaln_ if own else kernel.gate_residual_adaln
    return both(
        hidden_states,
        pending.x,
        pending.gate,
        by.scale,
        by.shift,
        pending.gate_table,
        by.scale_table,
        by.shift_table,
        None,
        None,
        norm.eps,
        kind,
    )


class LTXVideoTransformerBlock(stock.LTXVideoTransformerBlock):
    """forward() is diffusers' contract, for who calls a block alone or hooks it. The model itself calls enter(), so
    that the residual at a block's end and the norm at the next one's beginning are one pass."""

    _ltx_kernel: Kernel

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        temb: torch.Tensor,
        image_rotary_emb: Any = None,
        encoder_attention_mask: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        kernel = self._ltx_kernel
        kernel.check(hidden_states)
        ada = temb.reshape(temb.shape[0], temb.shape[1], self.scale_shift_table.shape[0], -1).unbind(dim=2)
        hidden_states, pending, own = self.enter(
            hidden_states, None, False, encoder_hidden_states, ada, image_rotary_emb, encoder_attention_mask
        )
        return settled(kernel, hidden_states, pending, own)

    def enter(
        self,
        hidden_states: torch.Tensor,
        pending: Optional[Pending],
        own: bool,
        text: torch.Tensor,
        ada: Tuple[torch.Tensor, ...],
        rotary: Any,
        mask: Optional[torch.Tensor],
    ) -> Tuple[torch.Tensor, Pending, bool]:
        """ada: of temb, in the order of the table. own: hidden_states may be written over: only we have them. Returns
        hidden states, what is still to be added to them, and whether they may be written over."""
        kernel = self._ltx_kernel
        eager = not torch.compiler.is_compiling()
        table = self.scale_shift_table.to(ada[0].device).unbind(0)
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = ada

        by = Modulation(scale_msa, shift_msa, table[1], table[0])
        x, hidden_states = modulated(kernel, self.norm1, "rms", hidden_states, pending, by, own)
        own = own and eager and not watched(self.norm1)
        pending = None  # its memory is free for what follows
        x = self.attn1(hidden_states=x, encoder_hidden_states=None, image_rotary_emb=rotary)
        hidden_states = settled(kernel, hidden_states, Pending(x, gate_msa, table[2]), own)

        x = self.attn2(hidden_states, encoder_hidden_states=text, image_rotary_emb=None, attention_mask=mask)
        # A hook may keep the tensors that its module received.
        own = eager and not watched(self.attn2) and fresh(self.attn2.to_q)
        by = Modulation(scale_mlp, shift_mlp, table[4], table[3])
        x, hidden_states = modulated(kernel, self.norm2, "rms", hidden_states, Pending(x, None, None), by, own)
        own = eager and not watched(self.norm2)
        return hidden_states, Pending(self._feed_forward(x), gate_mlp, table[5]), own

    def _feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._ltx_kernel.fuse_gelu and gelu.fuses(self.ff, x):
            return gelu.feed_forward(self.ff, x)
        return self.ff(x)


LTXVideoTransformerBlock.__module__ = stock.__name__
