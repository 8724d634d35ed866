# [of layer_norm adaln gate_residual gate_residual_adaln]
"""Adaptive normalisation and gated residuals of diffusion transformers, and LayerNorm. Without gradients.
# [else]
"""Normalisation and gated residuals of diffusion transformers. Without gradients.
# [end of]

A modulation (scale, shift, gate) has the dimensions of the tensor that it modulates up to some one, then 1 or nothing,
and the last: for ``[batch, tokens, width]`` it may be ``[batch, tokens, width]``, ``[batch, 1, width]``,
``[batch, width]`` or ``[width]``. All modulations of one call have as many rows. They may be slices of one tensor. Its
table, ``[width]``, is added to it in float32: a row of LTX-Video's ``scale_shift_table``.
"""

from typing import Optional, Tuple

import torch

from ._ops import add_op_namespace_prefix, ops

# Looked up once: a call goes straight to the dispatcher.
_layer_norm = ops.layer_norm.default
_adaln = ops.adaln.default
_gate_residual = ops.gate_residual.default
_gate_residual_ = ops.gate_residual_.default
_gate_residual_adaln = ops.gate_residual_adaln.default
_gate_residual_adaln_ = ops.gate_residual_adaln_.default

# A write that autograd does not see would spoil what it has saved.
_written = torch.autograd.graph.increment_version


@torch.library.register_fake(add_op_namespace_prefix("layer_norm"))
def _(x, weight, bias, eps):
    return x.new_empty(x.shape)


@torch.library.register_fake(add_op_namespace_prefix("adaln"))
def _(x, scale, shift, scale_table, shift_table, weight, bias, eps, layer_norm=False):
    return x.new_empty(x.shape)


@torch.library.register_fake(add_op_namespace_prefix("gate_residual"))
def _(h, x, gate, gate_table=None):
    return h.new_empty(h.shape)


@torch.library.register_fake(add_op_namespace_prefix("gate_residual_adaln"))
def _(h, x, gate, gate_table, scale, shift, scale_table, shift_table, weight, bias, eps, layer_norm=False):
    return h.new_empty(h.shape), h.new_empty(h.shape)


@torch.library.register_fake(add_op_namespace_prefix("gate_residual_adaln_"))
def _(h, x, gate, gate_table, scale, shift, scale_table, shift_table, weight, bias, eps, layer_norm=False):
    return h.new_empty(h.shape)


def _refuse_gradient(name: str, *tensors: Optional[torch.Tensor]) -> None:
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError(f"{name} has no gradient; call it under torch.no_grad()")


def _is_layer_norm(name: str, norm: str) -> bool:
    if norm not in ("rms", "layer"):
        raise ValueError(f'{name}: norm must be "rms" or "layer", but is {norm!r}')
    return norm == "layer"


def layer_norm(
    x: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    bias: Optional[torch.Tensor] = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """``(x - mean(x)) * rsqrt(variance(x) + eps) * weight + bias`` over the last dimension, in float32, rounded once.

    Arguments:
        x: ``[..., width]`` in float32, float16 or bfloat16. Rows may be any distance apart; what is no rows at one
            distance is copied first.
        weight, bias: ``[width]`` of ``x``'s dtype, or None for 1 and 0.

    Returns:
        A contiguous tensor of ``x``'s shape and dtype.
    """
    _refuse_gradient("layer_norm", x, weight, bias)
    return _layer_norm(x, weight, bias, eps)


def adaln(
    x: torch.Tensor,
    scale: Optional[torch.Tensor] = None,
    shift: Optional[torch.Tensor] = None,
    scale_table: Optional[torch.Tensor] = None,
    shift_table: Optional[torch.Tensor] = None,
    weight: Optional[torch.Tensor] = None,
    bias: Optional[torch.Tensor] = None,
    eps: float = 1e-6,
    norm: str = "rms",
) -> torch.Tensor:
    """``norm(x) * (1 + scale + scale_table) + shift + shift_table``, in float32 with one rounding.

    Arguments:
        # [of layer_norm]
        x: ``[..., width]`` in float32, float16 or bfloat16, as in :func:`layer_norm`.
        # [else]
        x: ``[..., width]`` in float32, float16 or bfloat16. Rows may be any distance apart; what is no rows at one
            distance is copied first.
        # [end of]
        scale, shift: modulations, see the module; None for 0.
        scale_table, shift_table: ``[width]``, added to scale and shift.
        weight, bias: ``[width]`` of the norm, or None for 1 and 0.
        eps: of the norm.
        norm: ``"rms"`` for RMSNorm, ``"layer"`` for LayerNorm.

    Returns:
        A contiguous tensor of ``x``'s shape and dtype.
    """
    _refuse_gradient("adaln", x, scale, shift, scale_table, shift_table, weight, bias)
    return _adaln(x, scale, shift, scale_table, shift_table, weight, bias, eps, _is_layer_norm("adaln", norm))


def gate_residual(
    h: torch.Tensor,
    x: torch.Tensor,
    gate: Optional[torch.Tensor] = None,
    gate_table: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """``h + x * (gate + gate_table)``, in float32 with one rounding.

    Arguments:
        # [of layer_norm]
        h, x: of one shape ``[..., width]`` and one dtype, as in :func:`layer_norm`.
        # [else]
        h, x: of one shape ``[..., width]`` and one dtype, float32, float16 or bfloat16. Rows may be any distance apart;
            what is no rows at one distance is copied first.
        # [end of]
        gate: a modulation, see the module; None for 1.
        gate_table: ``[width]``, added to gate.

    Returns:
        A contiguous tensor of ``h``'s shape and dtype.
    """
    _refuse_gradient("gate_residual", h, x, gate, gate_table)
    return _gate_residual(h, x, gate, gate_table)


def gate_residual_(
    h: torch.Tensor,
    x: torch.Tensor,
    gate: Optional[torch.Tensor] = None,
    gate_table: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """:func:`gate_residual`, written over ``h``, whose rows must be one distance apart. Returns ``h``."""
    _refuse_gradient("gate_residual_", h, x, gate, gate_table)
    _gate_residual_(h, x, gate, gate_table)
    _written(h)
    return h


def gate_residual_adaln(
    h: torch.Tensor,
    x: torch.Tensor,
    gate: Optional[torch.Tensor] = None,
    scale: Optional[torch.Tensor] = None,
    shift: Optional[torch.Tensor] = None,
    gate_table: Optional[torch.Tensor] = None,
    scale_table: Optional[torch.Tensor] = None,
    shift_table: Optional[torch.Tensor] = None,
    weight: Optional[torch.Tensor] = None,
    bias: Optional[torch.Tensor] = None,
    eps: float = 1e-6,
    norm: str = "rms",
) -> Tuple[torch.Tensor, torch.Tensor]:
    """``total = gate_residual(h, x, gate)``, rounded to the dtype, and ``adaln(total, scale, shift)``, in one pass.

    Returns:
        ``(adaln(total), total)``, contiguous, of ``h``'s shape and dtype.
    """
    _refuse_gradient(
        "gate_residual_adaln", h, x, gate, scale, shift, gate_table, scale_table, shift_table, weight, bias
    )
    layer = _is_layer_norm("gate_residual_adaln", norm)
    return _gate_residual_adaln(
        h, x, gate, gate_table, scale, shift, scale_table, shift_table, weight, bias, eps, layer
    )


def gate_residual_adaln_(
    h: torch.Tensor,
    x: torch.Tensor,
    gate: Optional[torch.Tensor] = None,
    scale: Optional[torch.Tensor] = None,
    shift: Optional[torch.Tensor] = None,
    gate_table: Optional[torch.Tensor] = None,
    scale_table: Optional[torch.Tensor] = None,
    shift_table: Optional[torch.Tensor] = None,
    weight: Optional[torch.Tensor] = None,
    bias: Optional[torch.Tensor] = None,
    eps: float = 1e-6,
    norm: str = "rms",
) -> Tuple[torch.Tensor, torch.Tensor]:
    """:func:`gate_residual_adaln` with the total written over ``h``, whose rows must be one distance apart.

    Returns:
        ``(adaln(h), h)``.
    """
    _refuse_gradient(
        "gate_residual_adaln_", h, x, gate, scale, shift, gate_table, scale_table, shift_table, weight, bias
    )
    layer = _is_layer_norm("gate_residual_adaln_", norm)
    out = _gate_residual_adaln_(
        h, x, gate, gate_table, scale, shift, scale_table, shift_table, weight, bias, eps, layer
    )
    _written(h)
    return out, h
