"""Attention: the norms of q and k and the rotation in one pass."""

from typing import Any, Optional

import torch
from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.transformers import transformer_ltx as stock

from .errors import OptimizeError
from .hooks import watched
from .kernel import Kernel
from .rotary import Grid


def fresh(module: torch.nn.Module) -> bool:
    """Whether what the module returns is a tensor that nobody else has."""
    return type(module) is torch.nn.Linear and not watched(module)


class LTXVideoAttnProcessor(stock.LTXVideoAttnProcessor):
    def __init__(self, kernel: Kernel, former: stock.LTXVideoAttnProcessor):
        super().__init__()
        self.kernel = kernel
        self.former = former
        self._attention_backend = former._attention_backend

    def __call__(
        self,
        attn: stock.LTXAttention,
        hidden_states: torch.Tensor,
        encoder_hidden_states: Optional[torch.Tensor] = None,
        attention_mask: Optional[torch.Tensor] = None,
        image_rotary_emb: Any = None,
    ) -> torch.Tensor:
        text = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        if attention_mask is not None and attention_mask.dim() < 4:
            attention_mask = prepared_mask(attn, attention_mask, text)

        query = attn.to_q(hidden_states)
        key = attn.to_k(text)
        value = attn.to_v(text)
        query, key = self._normed(attn, query, key, image_rotary_emb)

        heads = attn.heads
        hidden_states = dispatch_attention_fn(
            query.unflatten(2, (heads, -1)),
            key.unflatten(2, (heads, -1)),
            value.unflatten(2, (heads, -1)),
            attn_mask=attention_mask,
            dropout_p=0.0,
            is_causal=False,
            backend=self._attention_backend,
            parallel_config=None,
        )
        hidden_states = hidden_states.flatten(2, 3).to(query.dtype)
        hidden_states = attn.to_out[0](hidden_states)
        return attn.to_out[1](hidden_states)

    def _normed(self, attn, query, key, rotary):
        kernel, norm_q, norm_k = self.kernel, attn.norm_q, attn.norm_k
        # In place if nothing else references them; torch.compile plans memory itself.
        own = not torch.compiler.is_compiling() and fresh(attn.to_q) and fresh(attn.to_k)
        # Offloading loads a norm's weight only when the norm is called.
        hooked = watched(norm_q) or watched(norm_k)
        if isinstance(rotary, Grid) and not hooked:
            rotated = kernel.qk_norm_rope3d_ if own else kernel.qk_norm_rope3d
            return rotated(query, key, norm_q.weight, norm_k.weight, *rotary, norm_q.eps)
        if hooked:
            query, key = norm_q(query), norm_k(key)
        else:
            normed = kernel.rms_norm_ if own else kernel.rms_norm
            query, key = normed(query, norm_q.weight, norm_q.eps), normed(key, norm_k.weight, norm_k.eps)
        if isinstance(rotary, Grid):
            return kernel.rope3d(query, key, *rotary)
        if rotary is not None:
            return stock.apply_rotary_emb(query, rotary), stock.apply_rotary_emb(key, rotary)
        return query, key


class LTXAttention(stock.LTXAttention):
    """Without a look at the processor's signature in each call."""

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: Optional[torch.Tensor] = None,
        attention_mask: Optional[torch.Tensor] = None,
        image_rotary_emb: Any = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        processor = self.processor
        if type(processor) is not LTXVideoAttnProcessor:
            raise OptimizeError(
                f"LTXAttention: its processor was replaced by {type(processor).__name__} after optimize(); restore() "
                "the model before that"
            )
        if kwargs:
            return super().forward(hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb, **kwargs)
        return processor(self, hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb)


def prepared_mask(attn: stock.LTXAttention, mask: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    """[batch, heads, 1, text], as diffusers makes it in each block."""
    mask = attn.prepare_attention_mask(mask, text.shape[1], text.shape[0])
    return mask.view(text.shape[0], attn.heads, -1, mask.shape[-1])


for _cls in (LTXAttention, LTXVideoAttnProcessor):
    # Pipelines save the module name of a class.
    _cls.__module__ = stock.__name__
