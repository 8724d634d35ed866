"""LayerNorm and GELU in one pass. Without gradients."""

from typing import Optional

import torch

from ._ops import add_op_namespace_prefix, ops

# Looked up once: a call goes straight to the dispatcher.
_layer_norm_gelu = ops.layer_norm_gelu.default


@torch.library.register_fake(add_op_namespace_prefix("layer_norm_gelu"))
def _(x, weight, bias, eps, tanh):
    return x.new_empty(x.shape)


def layer_norm_gelu(
    x: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    bias: Optional[torch.Tensor] = None,
    eps: float = 1e-5,
    approximate: str = "none",
) -> torch.Tensor:
    """``gelu((x - mean(x)) * rsqrt(variance(x) + eps) * weight + bias)`` over the last dimension, in float32, rounded
    once.

    Arguments:
        x: ``[..., width]`` in float32, float16 or bfloat16. Rows may be any distance apart; what is no rows at one
            distance is copied first.
        weight, bias: ``[width]`` of ``x``'s dtype, or None for 1 and 0.
        eps: added to the variance.
        approximate: ``"none"`` for the GELU with erf, ``"tanh"`` for its approximation, as ``torch.nn.functional.gelu``.

    Returns:
        A contiguous tensor of ``x``'s shape and dtype. It cannot be differentiated.
    """
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias)):
        raise RuntimeError("layer_norm_gelu has no gradient; call it under torch.no_grad()")
    if approximate not in ("none", "tanh"):
        raise ValueError(f'layer_norm_gelu: approximate must be "none" or "tanh", but is {approximate!r}')
    return _layer_norm_gelu(x, weight, bias, eps, approximate == "tanh")


__all__ = ["layer_norm_gelu"]
