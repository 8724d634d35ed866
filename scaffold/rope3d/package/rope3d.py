# [of rope3d qk_norm_rope3d rope3d_table]
"""LTX-Video's rotary position embedding by frame, row and column; alone or behind a norm of q and k."""
# [else]
"""LTX-Video's rotary position embedding by frame, row and column."""
# [end of]

from typing import Optional, Tuple, Union

import torch
from torch.autograd.function import once_differentiable

from ._ops import add_op_namespace_prefix, ops

# Looked up once: a call goes straight to the dispatcher.
_rope3d = ops.rope3d.default
_rope3d_ = ops.rope3d_.default
_qk_norm_rope3d = ops.qk_norm_rope3d.default
_qk_norm_rope3d_ = ops.qk_norm_rope3d_.default
_rope3d_table = ops.rope3d_table.default

# A write that autograd does not see would spoil what it has saved.
_written = torch.autograd.graph.increment_version

_OneOrTwo = Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]


def _outputs(q: torch.Tensor, k: Optional[torch.Tensor]) -> Tuple[torch.Tensor, torch.Tensor]:
    return q.new_empty(q.shape), q.new_empty(0 if k is None else q.shape)


@torch.library.register_fake(add_op_namespace_prefix("rope3d"))
def _(q, k, table, frames, height, width, inverse=False):
    return _outputs(q, k)


@torch.library.register_fake(add_op_namespace_prefix("qk_norm_rope3d"))
def _(q, k, q_weight, k_weight, table, frames, height, width, eps, round_first=False):
    return _outputs(q, k)


@torch.library.register_fake(add_op_namespace_prefix("rope3d_table"))
def _(coords, dim, theta, frequencies=None):
    return coords.new_empty((*coords.shape, dim // 6 + 1, 2))


class _Rope3d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, table, frames, height, width, inverse):
        ctx.save_for_backward(table)
        ctx.video = frames, height, width
        ctx.inverse = inverse
        ctx.with_k = k is not None
        return _rope3d(q, k, table, frames, height, width, inverse)

    @staticmethod
    @once_differentiable
    def backward(ctx, dq, dk):
        # A rotation's gradient is turned back.
        (table,) = ctx.saved_tensors
        dk = dk if ctx.with_k else None
        dq, dk = _rope3d(dq, dk, table, *ctx.video, not ctx.inverse)
        return dq, dk if ctx.with_k else None, None, None, None, None, None


def _refuse_gradient(name: str, *tensors: Optional[torch.Tensor]) -> None:
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError(f"{name} has no gradient; call it under torch.no_grad()")


def rope3d_coords(
    frames: int,
    height: int,
    width: int,
    scale: Optional[Tuple[Union[float, torch.Tensor], float, float]] = None,
    device: Optional[torch.device] = None,
    base: Tuple[int, int, int] = (20, 2048, 2048),
    patch: Tuple[int, int] = (1, 1),
) -> torch.Tensor:
    """The coordinates for :func:`rope3d_table`, in the float32 steps of diffusers' ``LTXVideoRotaryPosEmbed``.

    Arguments:
        frames, height, width: of the latent video.
        scale: the model's ``rope_interpolation_scale``; the first may be a tensor with a value for each of a batch.
            None: coordinates are numbers of frames, rows and columns.
        base: the model's base_num_frames, base_height and base_width.
        patch: the model's patch_size_t and patch_size.

    Returns:
        ``[tables, frames + height + width]`` of float32: those of the frames, of the rows and of the columns; one
        table, or one for each value of ``scale``.
    """
    axes = [torch.arange(size, dtype=torch.float32, device=device)[None] for size in (frames, height, width)]
    if scale is not None:
        steps = (patch[0], patch[1], patch[1])
        scale = [s.reshape(-1, 1).to(axes[0].device) if isinstance(s, torch.Tensor) else s for s in scale]
        axes = [axis * s * step / of for axis, s, step, of in zip(axes, scale, steps, base)]
    tables = max(axis.shape[0] for axis in axes)
    return torch.cat([axis.expand(tables, -1) for axis in axes], dim=1)


def rope3d_table(
    coords: torch.Tensor, dim: int, theta: float = 10000.0, frequencies: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """The cosines and sines that the rotation reads: some 20,000 pairs, which stay in the card's cache, where the
    model's own tensors are as many bytes as q and k.

    Arguments:
        coords: ``[tables, frames + height + width]`` of float32, contiguous: what :func:`rope3d_coords` gives. One
            table for all of a batch, or one for each. Frames that a pipeline puts in front as conditions are frames
            like any.
        dim: of q and k; even. Elements ``dim % 6`` in front are not rotated.
        theta: the base of the frequencies.
        frequencies: ``[dim // 6]`` of float32, or None for ``theta ** linspace(0, 1, dim // 6) * pi / 2``.

    Returns:
        ``[tables, frames + height + width, dim // 6 + 1, 2]`` of float32.
    """
    return _rope3d_table(coords, dim, theta, frequencies)


def rope3d(
    q: torch.Tensor,
    k: Optional[torch.Tensor],
    table: torch.Tensor,
    frames: int,
    height: int,
    width: int,
    inverse: bool = False,
) -> _OneOrTwo:
    """Rotates the pairs of elements ``2i`` and ``2i + 1`` of each token of q and k by frame, row and column in turn, in
    float32 with one rounding, as diffusers' ``apply_rotary_emb`` of LTX-Video does.

    Arguments:
        q: ``[batch, frames * height * width, dim]``, or without batch, in float32, float16 or bfloat16. q, k and v may
            be slices of one projection; what is no rows at one distance is copied first.
        k: the same, or None.
        table: of :func:`rope3d_table`.
        inverse: turns back.

    Returns:
        ``(q, k)`` rotated, or q alone without k, contiguous. They can be differentiated by q and k.
    """
    if torch.is_grad_enabled() and (q.requires_grad or (k is not None and k.requires_grad)):
        out = _Rope3d.apply(q, k, table, frames, height, width, inverse)
    else:
        out = _rope3d(q, k, table, frames, height, width, inverse)
    return out[0] if k is None else out


def rope3d_(
    q: torch.Tensor,
    k: Optional[torch.Tensor],
    table: torch.Tensor,
    frames: int,
    height: int,
    width: int,
    inverse: bool = False,
) -> _OneOrTwo:
    """:func:`rope3d`, written over q and k, whose rows must be one distance apart. Returns them. Without gradients."""
    _refuse_gradient("rope3d_", q, k)
    _rope3d_(q, k, table, frames, height, width, inverse)
    _written(q if k is None else (q, k))
    return q if k is None else (q, k)


def qk_norm_rope3d(
    q: torch.Tensor,
    k: Optional[torch.Tensor],
    q_weight: Optional[torch.Tensor],
    k_weight: Optional[torch.Tensor],
    table: torch.Tensor,
    frames: int,
    height: int,
    width: int,
    eps: float = 1e-5,
    round_first: bool = False,
) -> _OneOrTwo:
    # [of rope3d]
    """:func:`rope3d` of the RMSNorm of each token of q and k, over all of its ``dim`` elements, in one pass.
    # [else]
    """The RMSNorm of each token of q and k, over all of its ``dim`` elements, and the rotation of its pairs of elements
    ``2i`` and ``2i + 1`` by frame, row and column in turn, in one pass.
    # [end of]

    Arguments:
        q_weight, k_weight: ``[dim]`` of q's dtype, or None for 1.
        eps: of the norm.
        round_first: round the norm's output to the dtype before it is rotated, as a norm module and a rotation apart
            do. Else all is float32 up to one rounding at the end.
        # [of rope3d]
        The rest as in :func:`rope3d`.

    Returns:
        As :func:`rope3d`. Without gradients.
        # [else]
        q: ``[batch, frames * height * width, dim]``, or without batch, in float32, float16 or bfloat16. q, k and v may
            be slices of one projection; what is no rows at one distance is copied first.
        k: the same, or None.
        table: of :func:`rope3d_table`.

    Returns:
        ``(q, k)`` normalised and rotated, or q alone without k, contiguous. Without gradients.
        # [end of]
    """
    _refuse_gradient("qk_norm_rope3d", q, k, q_weight, k_weight)
    out = _qk_norm_rope3d(q, k, q_weight, k_weight, table, frames, height, width, eps, round_first)
    return out[0] if k is None else out


def qk_norm_rope3d_(
    q: torch.Tensor,
    k: Optional[torch.Tensor],
    q_weight: Optional[torch.Tensor],
    k_weight: Optional[torch.Tensor],
    table: torch.Tensor,
    frames: int,
    height: int,
    width: int,
    eps: float = 1e-5,
    round_first: bool = False,
) -> _OneOrTwo:
    """:func:`qk_norm_rope3d`, written over q and k, whose rows must be one distance apart. Returns them."""
    _refuse_gradient("qk_norm_rope3d_", q, k, q_weight, k_weight)
    _qk_norm_rope3d_(q, k, q_weight, k_weight, table, frames, height, width, eps, round_first)
    _written(q if k is None else (q, k))
    return q if k is None else (q, k)
