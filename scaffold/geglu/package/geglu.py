# [of geglu swiglu swiglu_packed]
"""Gated activations: GEGLU and SwiGLU, their value and gate side by side in one tensor or apart in two."""
# [else]
"""Gated activations."""
# [end of]

import torch
from torch.autograd.function import once_differentiable

from ._ops import add_op_namespace_prefix, ops

# Looked up once: a call goes straight to the dispatcher.
_geglu = ops.geglu.default
_geglu_backward = ops.geglu_backward.default
_swiglu = ops.swiglu.default
_swiglu_backward = ops.swiglu_backward.default
_swiglu_packed = ops.swiglu_packed.default
_swiglu_packed_backward = ops.swiglu_packed_backward.default


def _half(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


@torch.library.register_fake(add_op_namespace_prefix("geglu"))
def _(x, gate_first=False, tanh=False):
    return _half(x)


@torch.library.register_fake(add_op_namespace_prefix("geglu_backward"))
def _(dy, x, gate_first=False, tanh=False):
    return x.new_empty(x.shape)


@torch.library.register_fake(add_op_namespace_prefix("swiglu"))
def _(gate, up):
    return gate.new_empty(gate.shape)


@torch.library.register_fake(add_op_namespace_prefix("swiglu_backward"))
def _(dy, gate, up):
    return gate.new_empty(gate.shape), up.new_empty(up.shape)


@torch.library.register_fake(add_op_namespace_prefix("swiglu_packed"))
def _(x, gate_first=False):
    return _half(x)


@torch.library.register_fake(add_op_namespace_prefix("swiglu_packed_backward"))
def _(dy, x, gate_first=False):
    return x.new_empty(x.shape)


class _GEGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate_first, tanh):
        ctx.save_for_backward(x)
        ctx.gate_first = gate_first
        ctx.tanh = tanh
        return _geglu(x, gate_first, tanh)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return _geglu_backward(dy, x, ctx.gate_first, ctx.tanh), None, None


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return _swiglu(gate, up)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        return _swiglu_backward(dy, *ctx.saved_tensors)


class _SwiGLUPacked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate_first):
        ctx.save_for_backward(x)
        ctx.gate_first = gate_first
        return _swiglu_packed(x, gate_first)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return _swiglu_packed_backward(dy, x, ctx.gate_first), None


def geglu(x: torch.Tensor, approximate: str = "none", gate_first: bool = False) -> torch.Tensor:
    """``value * gelu(gate)``, value and gate being the halves of ``x``.

    Arguments:
        x: ``[..., 2 * inner]`` in float32, float16 or bfloat16. Rows may be any distance apart; what is no rows at one
            distance is copied first.
        approximate: ``"none"`` for the exact gelu, ``"tanh"`` for its approximation, as in
            ``torch.nn.functional.gelu``.
        gate_first: whether the gate is the first half. In diffusers the value is.

    Returns:
        A contiguous ``[..., inner]`` of ``x``'s dtype, rounded once. It can be differentiated by ``x``.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'geglu: approximate must be "none" or "tanh", but is {approximate!r}')
    tanh = approximate == "tanh"
    if torch.is_grad_enabled() and x.requires_grad:
        return _GEGLU.apply(x, gate_first, tanh)
    return _geglu(x, gate_first, tanh)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """``silu(gate) * up``.

    Arguments:
        gate, up: of one shape ``[..., width]`` and one dtype, float32, float16 or bfloat16. They may be slices of one
            tensor: rows may be any distance apart. What is no rows at one distance is copied first.

    Returns:
        A contiguous tensor of their shape and dtype, rounded once. It can be differentiated by both.
    """
    if torch.is_grad_enabled() and (gate.requires_grad or up.requires_grad):
        return _SwiGLU.apply(gate, up)
    return _swiglu(gate, up)


def swiglu_packed(x: torch.Tensor, gate_first: bool = False) -> torch.Tensor:
    """``value * silu(gate)``, value and gate being the halves of ``x``.

    Arguments:
        # [of geglu]
        x: ``[..., 2 * inner]``, as in :func:`geglu`.
        # [else]
        x: ``[..., 2 * inner]`` in float32, float16 or bfloat16. Rows may be any distance apart; what is no rows at one
            distance is copied first.
        # [end of]
        gate_first: whether the gate is the first half, as in Phi-3 and in vLLM's SiluAndMul. In diffusers the value is.

    Returns:
        A contiguous ``[..., inner]`` of ``x``'s dtype, rounded once. It can be differentiated by ``x``.
    """
    if torch.is_grad_enabled() and x.requires_grad:
        return _SwiGLUPacked.apply(x, gate_first)
    return _swiglu_packed(x, gate_first)
