"""RMSNorm, alone or behind the addition of a residual."""

from typing import Optional, Tuple

import torch
from torch.autograd.function import once_differentiable

from ._ops import add_op_namespace_prefix, ops

# Looked up once: a call goes straight to the dispatcher.
_rms_norm = ops.rms_norm.default
_rms_norm_ = ops.rms_norm_.default
_add_rms_norm = ops.add_rms_norm.default
_add_rms_norm_ = ops.add_rms_norm_.default
_rms_norm_backward = ops.rms_norm_backward.default

# A write that autograd does not see would spoil what it has saved.
_written = torch.autograd.graph.increment_version


@torch.library.register_fake(add_op_namespace_prefix("rms_norm"))
def _(x, weight, eps, weight_offset=0.0, round_first=False):
    return x.new_empty(x.shape)


@torch.library.register_fake(add_op_namespace_prefix("add_rms_norm"))
def _(x, residual, weight, eps, weight_offset=0.0, round_first=False):
    return x.new_empty(x.shape), x.new_empty(x.shape)


@torch.library.register_fake(add_op_namespace_prefix("rms_norm_backward"))
def _(dy, x, weight, eps, weight_offset=0.0, weight_gradient=True):
    return x.new_empty(x.shape), x.new_empty(x.shape[-1] if weight_gradient else 0)


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps, weight_offset, round_first):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        ctx.weight_offset = weight_offset
        return _rms_norm(x, weight, eps, weight_offset, round_first)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        wanted = weight is not None and ctx.needs_input_grad[1]
        dx, dw = _rms_norm_backward(dy, x, weight, ctx.eps, ctx.weight_offset, wanted)
        return dx, dw if wanted else None, None, None, None


class _AddRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual, weight, eps, weight_offset, round_first):
        out, total = _add_rms_norm(x, residual, weight, eps, weight_offset, round_first)
        ctx.save_for_backward(total, weight)
        ctx.eps = eps
        ctx.weight_offset = weight_offset
        return out, total

    @staticmethod
    @once_differentiable
    def backward(ctx, dy, d_total):
        total, weight = ctx.saved_tensors
        wanted = weight is not None and ctx.needs_input_grad[2]
        dx, dw = _rms_norm_backward(dy, total, weight, ctx.eps, ctx.weight_offset, wanted)
        dx = dx + d_total
        return dx, dx, dw if wanted else None, None, None, None


def _refuse_gradient(name: str, *tensors: Optional[torch.Tensor]) -> None:
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError(f"{name} works in place and has no gradient; call it under torch.no_grad()")


def rms_norm(
    x: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    round_first: bool = False,
) -> torch.Tensor:
    """``x * rsqrt(mean(x * x) + eps) * (weight + weight_offset)``, the mean over the last dimension.

    Arguments:
        x: ``[..., width]`` in float32, float16 or bfloat16. Rows may be any distance apart; what is no rows at one
            distance is copied first.
        weight: ``[width]`` of ``x``'s dtype, or None for 1.
        eps: added to the mean of the squares.
        weight_offset: added to the weight; Gemma's modules have 1.
        round_first: round the normalised ``x`` to its dtype before it is multiplied by the weight, as the modules of
            Llama and Qwen in transformers do. Else all is float32 up to one rounding at the end, as in
            ``torch.nn.functional.rms_norm``.

    Returns:
        A contiguous tensor of ``x``'s shape and dtype. It can be differentiated by ``x`` and ``weight``.
    """
    if torch.is_grad_enabled() and (x.requires_grad or (weight is not None and weight.requires_grad)):
        return _RMSNorm.apply(x, weight, eps, weight_offset, round_first)
    if weight_offset == 0.0 and not round_first:
        return _rms_norm(x, weight, eps)  # each argument costs the dispatcher some 0.15 us
    return _rms_norm(x, weight, eps, weight_offset, round_first)


def rms_norm_(
    x: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    round_first: bool = False,
) -> torch.Tensor:
    """:func:`rms_norm`, written over ``x``, whose rows must be one distance apart. Returns ``x``. Without gradients."""
    _refuse_gradient("rms_norm_", x, weight)
    _rms_norm_(x, weight, eps, weight_offset, round_first)
    _written(x)
    return x


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    round_first: bool = False,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """``total = residual + x``, rounded to the dtype, and ``rms_norm(total)``, in one pass.

    Arguments:
        x, residual: of one shape ``[..., width]`` and one dtype. The rest as in :func:`rms_norm`.

    Returns:
        ``(rms_norm(total), total)``, both contiguous. They can be differentiated by ``x``, ``residual`` and ``weight``.
    """
    if torch.is_grad_enabled() and (
        x.requires_grad or residual.requires_grad or (weight is not None and weight.requires_grad)
    ):
        return _AddRMSNorm.apply(x, residual, weight, eps, weight_offset, round_first)
    return _add_rms_norm(x, residual, weight, eps, weight_offset, round_first)


def add_rms_norm_(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    round_first: bool = False,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """:func:`add_rms_norm` with the sum written over ``residual`` and its norm over ``x``; rows must be one distance
    apart, and the two may have no element in common. Returns ``(x, residual)``. Without gradients."""
    _refuse_gradient("add_rms_norm_", x, residual, weight)
    _add_rms_norm_(x, residual, weight, eps, weight_offset, round_first)
    _written((x, residual))
    return x, residual
