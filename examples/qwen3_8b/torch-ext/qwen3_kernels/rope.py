"""Rotary position embedding, half against half, as Llama and Qwen have it; alone or behind a norm of q and k."""

from typing import Optional, Tuple, Union

import torch
from torch.autograd.function import once_differentiable

from ._ops import add_op_namespace_prefix, ops

# Looked up once: a call goes straight to the dispatcher.
_rope = ops.rope.default
_rope_ = ops.rope_.default
_qk_norm_rope = ops.qk_norm_rope.default
_qk_norm_rope_ = ops.qk_norm_rope_.default

# A write that autograd does not see would spoil what it has saved.
_written = torch.autograd.graph.increment_version

_OneOrTwo = Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]


def _output(x: torch.Tensor, heads_first: bool) -> torch.Tensor:
    # By tokens in memory, whatever the order of the dimensions.
    if heads_first:
        return x.new_empty(x.transpose(-3, -2).shape).transpose(-3, -2)
    return x.new_empty(x.shape)


def _outputs(op: str, q: torch.Tensor, k: Optional[torch.Tensor], heads_first: bool):
    if k is None:
        return _output(q, heads_first), q.new_empty(0)
    torch._check(k.dim() == q.dim(), lambda: f"{op}: k must have q's {q.dim()} dimensions, but has {k.dim()}")
    return _output(q, heads_first), _output(k, heads_first)


@torch.library.register_fake(add_op_namespace_prefix("rope"))
def _(q, k, cos, sin, rotary_dim, heads_first=False, inverse=False):
    return _outputs("rope", q, k, heads_first)


@torch.library.register_fake(add_op_namespace_prefix("qk_norm_rope"))
def _(q, k, q_weight, k_weight, cos, sin, rotary_dim, eps, weight_offset=0.0, round_first=False, heads_first=False):
    return _outputs("qk_norm_rope", q, k, heads_first)


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, cos, sin, rotary_dim, heads_first, inverse):
        ctx.save_for_backward(cos, sin)
        ctx.rotary_dim = rotary_dim
        ctx.heads_first = heads_first
        ctx.inverse = inverse
        ctx.with_k = k is not None
        return _rope(q, k, cos, sin, rotary_dim, heads_first, inverse)

    @staticmethod
    @once_differentiable
    def backward(ctx, dq, dk):
        # A rotation's gradient is turned back.
        cos, sin = ctx.saved_tensors
        dk = dk if ctx.with_k else None
        dq, dk = _rope(dq, dk, cos, sin, ctx.rotary_dim, ctx.heads_first, not ctx.inverse)
        return dq, dk if ctx.with_k else None, None, None, None, None, None


def _refuse_gradient(name: str, *tensors: Optional[torch.Tensor]) -> None:
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError(f"{name} has no gradient; call it under torch.no_grad()")


def rope(
    q: torch.Tensor,
    k: Optional[torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotary_dim: Optional[int] = None,
    heads_first: bool = False,
    inverse: bool = False,
) -> _OneOrTwo:
    """Rotates the first ``rotary_dim`` elements of each head of q and k, half against half, in float32 with one
    rounding: ``first * cos - second * sin`` and ``second * cos + first * sin``. The other elements are copied.

    Arguments:
        q: ``[batch, tokens, heads, head_dim]``, or ``[batch, heads, tokens, head_dim]`` with ``heads_first``, or either
            without batch; float32, float16 or bfloat16. Any strides: q, k and v may be slices of one projection.
        k: the same with heads of its own number, or None.
        cos, sin: ``[batch or 1, tokens, columns]``, or without batch, in q's dtype or float32. Of the columns the first
            ``rotary_dim / 2`` are read: transformers' tables hold the same values twice.
        rotary_dim: even; None for the whole head.
        inverse: turns back.

    Returns:
        ``(q, k)`` rotated, or q alone without k, of the same shapes; they lie in memory by tokens. They can be
        differentiated by q and k.
    """
    rotary_dim = q.shape[-1] if rotary_dim is None else rotary_dim
    if torch.is_grad_enabled() and (q.requires_grad or (k is not None and k.requires_grad)):
        out = _Rope.apply(q, k, cos, sin, rotary_dim, heads_first, inverse)
    else:
        out = _rope(q, k, cos, sin, rotary_dim, heads_first, inverse)
    return out[0] if k is None else out


def rope_(
    q: torch.Tensor,
    k: Optional[torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotary_dim: Optional[int] = None,
    heads_first: bool = False,
    inverse: bool = False,
) -> _OneOrTwo:
    """:func:`rope`, written over q and k, which it returns. What lies behind ``rotary_dim`` is not touched. Without
    gradients."""
    _refuse_gradient("rope_", q, k)
    _rope_(q, k, cos, sin, q.shape[-1] if rotary_dim is None else rotary_dim, heads_first, inverse)
    _written(q if k is None else (q, k))
    return q if k is None else (q, k)


def qk_norm_rope(
    q: torch.Tensor,
    k: Optional[torch.Tensor],
    q_weight: Optional[torch.Tensor],
    k_weight: Optional[torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float = 1e-6,
    rotary_dim: Optional[int] = None,
    weight_offset: float = 0.0,
    round_first: bool = False,
    heads_first: bool = False,
) -> _OneOrTwo:
    """:func:`rope` of the RMSNorm of each head of q and k, in one pass: Qwen3's attention has both.

    Arguments:
        q_weight, k_weight: ``[head_dim]`` of q's dtype, or None for 1.
        eps, weight_offset: of the norm: ``x * rsqrt(mean(x * x) + eps) * (weight + weight_offset)``.
        round_first: round the normalised x to its dtype before it is multiplied by the weight, as the modules of
            transformers do. All else is float32 up to one rounding at the end.
        The rest as in :func:`rope`.

    Returns:
        As :func:`rope`. Without gradients.
    """
    _refuse_gradient("qk_norm_rope", q, k, q_weight, k_weight)
    rotary_dim = q.shape[-1] if rotary_dim is None else rotary_dim
    out = _qk_norm_rope(q, k, q_weight, k_weight, cos, sin, rotary_dim, eps, weight_offset, round_first, heads_first)
    return out[0] if k is None else out


def qk_norm_rope_(
    q: torch.Tensor,
    k: Optional[torch.Tensor],
    q_weight: Optional[torch.Tensor],
    k_weight: Optional[torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float = 1e-6,
    rotary_dim: Optional[int] = None,
    weight_offset: float = 0.0,
    round_first: bool = False,
    heads_first: bool = False,
) -> _OneOrTwo:
    """:func:`qk_norm_rope`, written over q and k, which it returns."""
    _refuse_gradient("qk_norm_rope_", q, k, q_weight, k_weight)
    rotary_dim = q.shape[-1] if rotary_dim is None else rotary_dim
    _qk_norm_rope_(q, k, q_weight, k_weight, cos, sin, rotary_dim, eps, weight_offset, round_first, heads_first)
    _written(q if k is None else (q, k))
    return q if k is None else (q, k)


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The function of this name in Llama, Qwen3 and their kin in transformers: q and k are
    ``[batch, heads, tokens, head_dim]``, or ``[batch, tokens, heads, head_dim]`` with ``unsqueeze_dim=2``, and cos has
    a column for each element rotated. Not gpt_oss's, whose cos has a column for each pair, and not nanochat's, which
    turns the other way: :func:`rope` computes both, the second with ``inverse``."""
    return rope(q, k, cos, sin, cos.shape[-1], unsqueeze_dim == 1)
