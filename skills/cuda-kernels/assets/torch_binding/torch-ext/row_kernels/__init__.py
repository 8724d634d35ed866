from typing import Optional, Tuple

import torch

from ._ops import add_op_namespace_prefix, ops


# What torch.compile sees instead of the kernel: shapes and dtypes, no values.
@torch.library.register_fake(add_op_namespace_prefix("rms_norm"))
def _(x, weight, eps, weight_offset=0.0, round_first=False):
    return x.new_empty(x.shape)


@torch.library.register_fake(add_op_namespace_prefix("add_rms_norm"))
def _(x, residual, weight, eps, weight_offset=0.0, round_first=False):
    return x.new_empty(x.shape), x.new_empty(x.shape)


def _setup(ctx, inputs, output):
    x, weight, ctx.eps, ctx.weight_offset, _ = inputs
    ctx.save_for_backward(x, weight)


def _backward(ctx, grad):
    x, weight = ctx.saved_tensors
    x_, g = x.float(), grad.float()
    inverse = torch.rsqrt(x_.square().mean(-1, keepdim=True) + ctx.eps)
    n = x_ * inverse
    grad_weight = None
    if weight is not None:
        if ctx.needs_input_grad[1]:
            grad_weight = (g * n).sum_to_size(weight.shape).to(weight.dtype)
        g = g * (weight.float() + ctx.weight_offset)
    grad_x = inverse * (g - n * (g * n).mean(-1, keepdim=True))
    return grad_x.to(x.dtype), grad_weight, None, None, None


torch.library.register_autograd(add_op_namespace_prefix("rms_norm"), _backward, setup_context=_setup)


def rms_norm(
    x: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    round_first: bool = False,
) -> torch.Tensor:
    return ops.rms_norm(x, weight, eps, weight_offset, round_first)


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    round_first: bool = False,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The norm of residual + x, and that sum. It has no gradient: better an error than a silent zero."""
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, residual, weight)):
        raise RuntimeError("add_rms_norm has no gradient; call it under torch.no_grad()")
    return ops.add_rms_norm(x, residual, weight, eps, weight_offset, round_first)


__all__ = ["rms_norm", "add_rms_norm"]
