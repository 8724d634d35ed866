"""The calls of the family adaln, for test_ops.py."""

import torch
from support import Case


def normed(x, weight=None, bias=None, eps=1e-6, layer=False):
    x = x - x.mean(-1, keepdim=True) if layer else x
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def of(x, modulation, table=None):
    """A modulation, and its table, with dimensions of 1 where it has one row for many of x."""
    whole = modulation if table is None else modulation + table
    while whole.dim() < x.dim():
        whole = whole.unsqueeze(-2)
    return whole


def modulate(x, scale, shift, scale_table=None, shift_table=None, **options):
    return normed(x, **options) * (1 + of(x, scale, scale_table)) + of(x, shift, shift_table)


def rounded(y, dtype):
    return y.to(dtype).double()


def ltx(width, steps):
    """h and x, and the modulations as slices of temb, as LTX-Video's block has them."""

    def arguments(draw, n):
        temb = draw(2, steps or n, 6, width)
        given = {"h": draw(2, n, width), "x": draw(2, n, width)}
        given |= {name: temb[:, :, i] for i, name in enumerate(("shift", "scale", "gate"))}
        tables = draw(3, width)
        return given | {name: tables[i] for i, name in enumerate(("shift_table", "scale_table", "gate_table"))}

    return arguments


def adaln(name, width, steps, norm="rms"):
    def exact(x, scale, shift, scale_table, shift_table, dtype, **_):
        return modulate(x, scale, shift, scale_table, shift_table, layer=norm == "layer")

    return Case(
        name,
        ltx(width, steps),
        lambda kernel, x, scale, shift, scale_table, shift_table, **_: kernel.adaln(
            x, scale, shift, scale_table, shift_table, norm=norm
        ),
        exact,
    )


def total(h, x, gate, gate_table):
    return h + x * of(x, gate, gate_table)


def fused(name, width, steps, op):
    def exact(h, x, gate, gate_table, scale, shift, scale_table, shift_table, dtype):
        y = rounded(total(h, x, gate, gate_table), dtype)
        return modulate(y, scale, shift, scale_table, shift_table), y

    def call(kernel, h, x, gate, gate_table, scale, shift, scale_table, shift_table):
        h = h.clone() if op.endswith("_") else h
        return getattr(kernel, op)(h, x, gate, scale, shift, gate_table, scale_table, shift_table)

    return Case(name, ltx(width, steps), call, exact, roundings=3)


CASES = [
    Case(
        "layer_norm",
        lambda draw, n: {"x": draw(2, n, 2048), "weight": draw(2048), "bias": draw(2048)},
        lambda kernel, x, weight, bias: kernel.layer_norm(x, weight, bias),
        lambda x, weight, bias, dtype: normed(x, weight, bias, 1e-5, True),
    ),
    Case(
        "layer_norm of an odd width, without weight and bias",
        lambda draw, n: {"x": draw(n, 3, 77)},
        lambda kernel, x: kernel.layer_norm(x, eps=1e-6),
        lambda x, dtype: normed(x, layer=True),
    ),
    adaln("adaln", 2048, 1),
    adaln("adaln, a row a token", 64, None),
    adaln("adaln, LayerNorm", 1152, 1, "layer"),
    Case(
        "adaln with all that a norm has, modulations without tokens",
        lambda draw, n: {"x": draw(2, n, 72), "weight": draw(72), "bias": draw(72), "mod": draw(2, 2 * 72)},
        lambda kernel, x, weight, bias, mod: kernel.adaln(
            x, mod[:, :72], mod[:, 72:], weight=weight, bias=bias, eps=1e-3, norm="layer"
        ),
        lambda x, weight, bias, mod, dtype: modulate(
            x, mod[:, :72], mod[:, 72:], weight=weight, bias=bias, eps=1e-3, layer=True
        ),
    ),
    Case(
        "gate_residual",
        ltx(2048, 1),
        lambda kernel, h, x, gate, gate_table, **_: kernel.gate_residual(h, x, gate, gate_table),
        lambda h, x, gate, gate_table, dtype, **_: total(h, x, gate, gate_table),
    ),
    Case(
        "gate_residual without a gate",
        ltx(65, 1),
        lambda kernel, h, x, **_: kernel.gate_residual(h, x),
        lambda h, x, dtype, **_: h + x,
    ),
    Case(
        "gate_residual_",
        ltx(256, None),
        lambda kernel, h, x, gate, gate_table, **_: kernel.gate_residual_(h.clone(), x, gate, gate_table),
        lambda h, x, gate, gate_table, dtype, **_: total(h, x, gate, gate_table),
    ),
    fused("gate_residual_adaln", 2048, 1, "gate_residual_adaln"),
    fused("gate_residual_adaln, a row a token", 136, None, "gate_residual_adaln"),
    fused("gate_residual_adaln_", 512, 1, "gate_residual_adaln_"),
]
