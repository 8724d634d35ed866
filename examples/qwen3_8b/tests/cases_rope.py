"""The calls of the family rope, for test_ops.py."""

import torch
from support import Case


def rotate(x, cos, sin, rotary_dim, inverse=False):
    """x [batch, tokens, heads, head_dim]; cos and sin [batch or 1, tokens, columns]"""
    half = rotary_dim // 2
    cos, sin = cos[..., None, :half], sin[..., None, :half]
    sin = -sin if inverse else sin
    first, second, rest = x[..., :half], x[..., half:rotary_dim], x[..., rotary_dim:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)


def norm(x, weight, dtype, round_first, offset=0.0, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    if round_first:
        y = y.to(dtype).double()
    y = y * (weight + offset)
    return y.to(dtype).double() if round_first else y


def make(heads, k_heads, head_dim, columns, tables=None, weights=False, batched=False):
    def arguments(draw, n):
        angle = draw(2 if batched else 1, n, columns, dtype=torch.float32) * 3
        if columns == head_dim:  # as transformers' tables: the same values twice
            angle = torch.cat([angle[..., : columns // 2]] * 2, -1)
        dtype = tables or draw.dtype
        given = {"q": draw(2, n, heads, head_dim), "k": draw(2, n, k_heads, head_dim)}
        given |= {"cos": angle.cos().to(dtype), "sin": angle.sin().to(dtype)}
        return given | ({"q_weight": draw(head_dim), "k_weight": draw(head_dim)} if weights else {})

    return arguments


def turned(x):
    return x.transpose(1, 2)


def length(x):
    """Of the pairs that a rotation of whole heads turns: it is the same before and after."""
    return torch.cat([torch.hypot(*x.chunk(2, -1))] * 2, -1)


CASES = [
    Case(
        "rope",
        make(8, 2, 128, 128),
        lambda kernel, q, k, cos, sin: kernel.rope(q, k, cos, sin),
        lambda q, k, cos, sin, dtype: (rotate(q, cos, sin, 128), rotate(k, cos, sin, 128)),
        ("q", "k"),
    ),
    Case(
        "rope with tables in float32 for each of a batch",
        make(3, 3, 64, 32, tables=torch.float32, batched=True),
        lambda kernel, q, k, cos, sin: kernel.rope(q, k, cos, sin),
        lambda q, k, cos, sin, dtype: (rotate(q, cos, sin, 64), rotate(k, cos, sin, 64)),
        ("q", "k"),
    ),
    Case(
        "rope of a part, back",
        make(4, 1, 66, 10),
        lambda kernel, q, k, cos, sin: kernel.rope(q, k, cos, sin, 20, inverse=True),
        lambda q, k, cos, sin, dtype: (rotate(q, cos, sin, 20, True), rotate(k, cos, sin, 20, True)),
        ("q", "k"),
    ),
    Case(
        "rope of q alone",
        make(4, 1, 64, 64),
        lambda kernel, q, k, cos, sin: kernel.rope(q, None, cos, sin),
        lambda q, k, cos, sin, dtype: rotate(q, cos, sin, 64),
        ("q",),
    ),
    Case(
        "apply_rotary_pos_emb",
        make(8, 2, 128, 128),
        lambda kernel, q, k, cos, sin: kernel.apply_rotary_pos_emb(turned(q), turned(k), cos, sin),
        lambda q, k, cos, sin, dtype: (turned(rotate(q, cos, sin, 128)), turned(rotate(k, cos, sin, 128))),
        ("q", "k"),
    ),
    Case(
        "rope_",
        make(5, 2, 64, 32),
        lambda kernel, q, k, cos, sin: kernel.rope_(q.clone(), k.clone(), cos, sin),
        lambda q, k, cos, sin, dtype: (rotate(q, cos, sin, 64), rotate(k, cos, sin, 64)),
    ),
    Case(
        "qk_norm_rope",
        make(32, 8, 128, 128, weights=True),
        lambda kernel, q, k, cos, sin, q_weight, k_weight: kernel.qk_norm_rope(q, k, q_weight, k_weight, cos, sin),
        lambda q, k, cos, sin, q_weight, k_weight, dtype: (
            rotate(norm(q, q_weight, dtype, False), cos, sin, 128),
            rotate(norm(k, k_weight, dtype, False), cos, sin, 128),
        ),
    ),
    Case(
        "qk_norm_rope, rounded first, heads first",
        make(4, 2, 64, 64, weights=True),
        lambda kernel, q, k, cos, sin, q_weight, k_weight: kernel.qk_norm_rope(
            turned(q), turned(k), q_weight, k_weight, cos, sin, round_first=True, heads_first=True
        ),
        lambda q, k, cos, sin, q_weight, k_weight, dtype: (
            turned(rotate(norm(q, q_weight, dtype, True), cos, sin, 64)),
            turned(rotate(norm(k, k_weight, dtype, True), cos, sin, 64)),
        ),
        roundings=9,  # both of a pair twice, by a whole unit where the nearest is a matter of taste; then the result
        magnitude=length,
    ),
    Case(
        "qk_norm_rope_",
        make(4, 2, 64, 32, weights=True),
        lambda kernel, q, k, cos, sin, q_weight, k_weight: kernel.qk_norm_rope_(
            q.clone(), k.clone(), q_weight, k_weight, cos, sin, weight_offset=1.0
        ),
        lambda q, k, cos, sin, q_weight, k_weight, dtype: (
            rotate(norm(q, q_weight, dtype, False, 1.0), cos, sin, 64),
            rotate(norm(k, k_weight, dtype, False, 1.0), cos, sin, 64),
        ),
    ),
]
