"""The calls of the family rope3d, for test_ops.py."""

import math

import torch
from support import Case


def table_of(coords, dim, theta=10000.0):
    """What rope3d_table gives, in the model's float32 steps up to the angles: at 15,000 rad each step counts."""
    coords = coords.float()
    frequencies = theta ** torch.linspace(0.0, 1.0, dim // 6, device=coords.device, dtype=torch.float32)
    angles = ((frequencies * math.pi / 2.0) * (coords[..., None] * 2 - 1)).double()
    ones = torch.ones_like(coords[..., None]).double()
    cos, sin = torch.cat([ones, angles.cos()], -1), torch.cat([0 * ones, angles.sin()], -1)
    return torch.stack([cos, sin], -1)


def rotate(x, table, frames, height, width, inverse=False):
    """x [batch, tokens, dim]"""
    dim = x.shape[-1]
    axes = table.double().split([frames, height, width], dim=1)
    grid = [
        axes[0][:, :, None, None].expand(-1, -1, height, width, -1, -1),
        axes[1][:, None, :, None].expand(-1, frames, -1, width, -1, -1),
        axes[2][:, None, None, :].expand(-1, frames, height, -1, -1, -1),
    ]
    # [tables, tokens, frequencies, axis, (cos, sin)], the pair (1, 0) in front taken off
    pairs = torch.stack([axis.flatten(1, 3)[:, :, 1:] for axis in grid], dim=3).flatten(2, 3)
    cos, sin = pairs[..., 0], -pairs[..., 1] if inverse else pairs[..., 1]
    pad = dim % 6
    even, odd = x[..., pad::2], x[..., pad + 1 :: 2]
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(2)
    return torch.cat([x[..., :pad], turned], dim=-1)


def norm(x, weight, dtype, round_first, eps=1e-5):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
    return y.to(dtype).double() if round_first else y


def make(dim, tables=1, weights=False):
    def arguments(draw, n):
        video = {"frames": n, "height": 3, "width": 4}
        coords = draw(tables, n + 7, dtype=torch.float32)
        given = {"q": draw(2, n * 12, dim), "k": draw(2, n * 12, dim), "table": table_of(coords, dim).float()}
        return given | video | ({"q_weight": draw(dim), "k_weight": draw(dim)} if weights else {})

    return arguments


def call_of(name, **options):
    def call(kernel, q, k, table, frames, height, width, q_weight=None, k_weight=None):
        if name.endswith("_"):
            q, k = q.clone(), k.clone()
        weights = (q_weight, k_weight) if name.startswith("qk_norm") else ()
        return getattr(kernel, name)(q, k, *weights, table, frames, height, width, **options)

    return call


def exact_of(inverse=False, normed=False, round_first=False):
    def exact(q, k, table, frames, height, width, dtype, q_weight=None, k_weight=None):
        if normed:
            q, k = norm(q, q_weight, dtype, round_first), norm(k, k_weight, dtype, round_first)
        return tuple(rotate(x, table, frames, height, width, inverse) for x in (q, k))

    return exact


def length(x):
    """Of the pairs that are rotated: it is the same before and after."""
    return torch.hypot(x[..., 0::2], x[..., 1::2]).repeat_interleave(2, -1)


CASES = [
    Case("rope3d", make(2048), call_of("rope3d"), exact_of(), ("q", "k")),
    Case("rope3d of 64, a table each", make(64, 2), call_of("rope3d"), exact_of(), ("q", "k")),
    Case("rope3d of 66, back", make(66), call_of("rope3d", inverse=True), exact_of(True), ("q", "k")),
    Case(
        "rope3d of q alone",
        make(130),
        lambda kernel, q, k, table, **video: kernel.rope3d(q, None, table, **video),
        lambda q, k, table, dtype, **video: rotate(q, table, **video),
        ("q",),
    ),
    Case("rope3d_", make(128), call_of("rope3d_"), exact_of()),
    Case("qk_norm_rope3d", make(2048, weights=True), call_of("qk_norm_rope3d"), exact_of(normed=True)),
    Case(
        "qk_norm_rope3d, rounded first",
        make(256, 2, weights=True),
        call_of("qk_norm_rope3d", round_first=True),
        exact_of(normed=True, round_first=True),
        roundings=5,  # both of a pair, by a whole unit where the nearest is a matter of taste; then the result
        magnitude=length,
    ),
    Case("qk_norm_rope3d_", make(72, weights=True), call_of("qk_norm_rope3d_"), exact_of(normed=True)),
]
