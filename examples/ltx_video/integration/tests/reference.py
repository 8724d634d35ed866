"""The kernel's functions in plain torch, so that the wiring can be tested without a card. Every step is float64, with
one rounding at the end, and each function that writes in place does so here too."""

import math

import torch

RUNS_ANYWHERE = True  # the kernel itself is for CUDA alone


def _norm(x, kind, eps, weight=None, bias=None):
    if kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    y = y if weight is None else y * weight.double()
    return y if bias is None else y + bias.double()


def _row(modulation, table, default):
    if modulation is None:
        assert table is None, "a table is added to a modulation"
        return default
    modulation = modulation.double()
    return modulation if table is None else modulation + table.double()


def _into(out, value):
    with torch.no_grad():
        out.copy_(value)
    return out


def _gated(h, x, gate, gate_table):
    assert h.shape == x.shape and h.dtype == x.dtype
    return h.double() + x.double() * _row(gate, gate_table, 1.0)


def _modulated(x, scale, shift, scale_table, shift_table, weight, bias, eps, norm):
    assert norm in ("rms", "layer")
    y = _norm(x.double(), norm, eps, weight, bias)
    return y * (1 + _row(scale, scale_table, 0.0)) + _row(shift, shift_table, 0.0)


def adaln(x, scale=None, shift=None, scale_table=None, shift_table=None, weight=None, bias=None, eps=1e-6, norm="rms"):
    return _modulated(x, scale, shift, scale_table, shift_table, weight, bias, eps, norm).to(x.dtype)


def gate_residual(h, x, gate=None, gate_table=None):
    return _gated(h, x, gate, gate_table).to(h.dtype)


def gate_residual_(h, x, gate=None, gate_table=None):
    return _into(h, _gated(h, x, gate, gate_table))


def gate_residual_adaln(
    h, x, gate=None, scale=None, shift=None, gate_table=None, scale_table=None, shift_table=None, weight=None,
    bias=None, eps=1e-6, norm="rms",
):  # fmt: skip
    total = gate_residual(h, x, gate, gate_table)
    return adaln(total, scale, shift, scale_table, shift_table, weight, bias, eps, norm), total


def gate_residual_adaln_(
    h, x, gate=None, scale=None, shift=None, gate_table=None, scale_table=None, shift_table=None, weight=None,
    bias=None, eps=1e-6, norm="rms",
):  # fmt: skip
    gate_residual_(h, x, gate, gate_table)
    return adaln(h, scale, shift, scale_table, shift_table, weight, bias, eps, norm), h


def rms_norm(x, weight=None, eps=1e-6, weight_offset=0.0, round_first=False):
    assert weight_offset == 0.0 and not round_first
    return _norm(x.double(), "rms", eps, weight).to(x.dtype)


def rms_norm_(x, weight=None, eps=1e-6, weight_offset=0.0, round_first=False):
    return _into(x, rms_norm(x, weight, eps, weight_offset, round_first))


def rope3d_coords(frames, height, width, scale=None, device=None, base=(20, 2048, 2048), patch=(1, 1)):
    axes = []
    for axis, size in enumerate((frames, height, width)):
        coords = torch.arange(size, dtype=torch.float32, device=device)[None]
        if scale is not None:
            by = scale[axis].reshape(-1, 1) if isinstance(scale[axis], torch.Tensor) else scale[axis]
            coords = coords * by * patch[min(axis, 1)] / base[axis]
        axes.append(coords)
    tables = max(len(axis) for axis in axes)
    return torch.cat([axis.expand(tables, -1) for axis in axes], 1)


def rope3d_table(coords, dim, theta=10000.0, frequencies=None):
    assert coords.dtype == torch.float32 and coords.dim() == 2
    if frequencies is None:
        frequencies = theta ** torch.linspace(0.0, 1.0, dim // 6, dtype=torch.float32, device=coords.device)
        frequencies = frequencies * math.pi / 2.0
    # Angles in float32, as in the model: at 15,000 rad every rounding step matters.
    angles = (frequencies * (coords[..., None] * 2 - 1)).double()
    still = torch.zeros_like(angles[..., :1])
    angles = torch.cat([still, angles], -1)
    return torch.stack([angles.cos(), angles.sin()], -1).float()


def _rotated(x, table, frames, height, width):
    batch, tokens, dim = x.shape
    assert tokens == frames * height * width, "the tokens are no grid of that size"
    assert table.shape[0] in (1, batch)
    f, h, w = table.double().split([frames, height, width], dim=1)
    full = (table.shape[0], frames, height, width, *table.shape[2:])
    f, h, w = f[:, :, None, None].expand(full), h[:, None, :, None].expand(full), w[:, None, None].expand(full)
    # [tables, tokens, frequency, axis, (cos, sin)]; the first pair stands still
    pairs = torch.stack([axis.flatten(1, 3)[:, :, 1:] for axis in (f, h, w)], 3).flatten(2, 3)
    cos, sin = pairs.unbind(-1)
    front = dim % 6
    even, odd = x[..., front::2], x[..., front + 1 :: 2]
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(2)
    return torch.cat([x[..., :front], turned], -1)


def rope3d(q, k, table, frames, height, width):
    return tuple(_rotated(x.double(), table, frames, height, width).to(x.dtype) for x in (q, k))


def rope3d_(q, k, table, frames, height, width):
    rotated = rope3d(q, k, table, frames, height, width)
    return _into(q, rotated[0]), _into(k, rotated[1])


def qk_norm_rope3d(q, k, q_weight, k_weight, table, frames, height, width, eps=1e-5, round_first=False):
    assert not round_first
    return tuple(
        _rotated(_norm(x.double(), "rms", eps, weight), table, frames, height, width).to(x.dtype)
        for x, weight in ((q, q_weight), (k, k_weight))
    )


def qk_norm_rope3d_(q, k, q_weight, k_weight, table, frames, height, width, eps=1e-5, round_first=False):
    out = qk_norm_rope3d(q, k, q_weight, k_weight, table, frames, height, width, eps, round_first)
    return _into(q, out[0]), _into(k, out[1])
