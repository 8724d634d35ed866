"""A soft cap: ``cap * tanh(x / cap)``."""

import torch

from ._ops import add_op_namespace_prefix, ops

# Looked up once: a call goes straight to the dispatcher.
_softcap = ops.softcap.default
_softcap_ = ops.softcap_.default

# A write that autograd does not see would spoil what it has saved.
_written = torch.autograd.graph.increment_version


@torch.library.register_fake(add_op_namespace_prefix("softcap"))
def _(x, cap):
    return x.new_empty(x.shape)


class _Softcap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cap):
        ctx.save_for_backward(x)
        ctx.cap = cap
        return _softcap(x, cap)

    @staticmethod
    def backward(ctx, dy):
        # torch's own operations: a gradient without a kernel of its own, in float32 as the forward.
        (x,) = ctx.saved_tensors
        t = torch.tanh(x.float() / ctx.cap)
        return (dy.float() * (1 - t * t)).to(x.dtype), None


def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
    """``cap * tanh(x / cap)``, in float32 up to one rounding at the end.

    Arguments:
        x: ``[..., width]`` in float32, float16 or bfloat16. Rows may be any distance apart; what is no rows at one
            distance is copied first.
        cap: above 0; no result is further from 0.

    Returns:
        A contiguous tensor of ``x``'s shape and dtype. It can be differentiated by ``x``.
    """
    if torch.is_grad_enabled() and x.requires_grad:
        return _Softcap.apply(x, cap)
    return _softcap(x, cap)


def softcap_(x: torch.Tensor, cap: float) -> torch.Tensor:
    """:func:`softcap`, written over ``x``, whose rows must be one distance apart. Returns ``x``. Without gradient."""
    if torch.is_grad_enabled() and x.requires_grad:
        raise RuntimeError("softcap_ works in place and has no gradient; call it under torch.no_grad()")
    _softcap_(x, cap)
    _written(x)
    return x


__all__ = ["softcap", "softcap_"]
