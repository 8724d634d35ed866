"""The family adaln's rows of benchmark.py."""

import torch
import torch.nn.functional as F
from benchmark import Row

NAMES = ("shift", "scale", "gate")


def make(names, batch, tokens, width, extra=()):
    """Activations, and LTX-Video's modulations: slices of one tensor, and rows of the table."""

    def arguments(draw):
        given = {name: draw(batch, tokens, width) for name in names}
        if extra:
            temb, table = draw(batch, 1, 6, width), draw(6, width)
            for name in extra:
                given |= {name: temb[:, :, NAMES.index(name)], f"{name}_table": table[NAMES.index(name)]}
        return given

    return arguments


def rms(x):
    # diffusers' RMSNorm without weight
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    return (x * torch.rsqrt(variance + 1e-6)).to(x.dtype)


def eager_adaln(x, scale, scale_table, shift, shift_table):
    return rms(x) * (1 + (scale + scale_table)) + (shift + shift_table)


def eager_gate(h, x, gate, gate_table):
    return h + x * (gate + gate_table)


def eager_fused(h, x, gate, gate_table, scale, scale_table, shift, shift_table):
    total = h + x * (gate + gate_table)
    return eager_adaln(total, scale, scale_table, shift, shift_table), total


def adaln(name, *shape):
    return Row(
        f"adaln, LTX-Video norm1, {name}",
        make(("x",), *shape, extra=("scale", "shift")),
        lambda kernel, x, scale, scale_table, shift, shift_table: kernel.adaln(
            x, scale, shift, scale_table, shift_table
        ),
        eager_adaln,
    )


def gate_residual(name, *shape):
    return Row(
        f"gate_residual, LTX-Video attn1, {name}",
        make(("h", "x"), *shape, extra=("gate",)),
        lambda kernel, h, x, gate, gate_table: kernel.gate_residual(h, x, gate, gate_table),
        eager_gate,
    )


def fused(name, *shape):
    return Row(
        f"gate_residual_adaln, LTX-Video ff and norm1, {name}",
        make(("h", "x"), *shape, extra=("gate", "scale", "shift")),
        lambda kernel, h, x, gate, gate_table, scale, scale_table, shift, shift_table: kernel.gate_residual_adaln(
            h, x, gate, scale, shift, gate_table, scale_table, shift_table
        ),
        eager_fused,
    )


def layer_norm(name, rows, width):
    return Row(
        f"layer_norm, {name}: {rows} x {width}",
        lambda draw: {"x": draw(rows, width), "weight": draw(width), "bias": draw(width)},
        lambda kernel, x, weight, bias: kernel.layer_norm(x, weight, bias, 1e-6),
        lambda x, weight, bias: F.layer_norm(x, (x.shape[-1],), weight, bias, 1e-6),
    )


ROWS = [
    adaln("49 frames, batch 2", 2, 2688, 2048),
    adaln("161 frames, batch 2", 2, 8064, 2048),
    gate_residual("49 frames, batch 2", 2, 2688, 2048),
    gate_residual("161 frames, batch 2", 2, 8064, 2048),
    fused("49 frames, batch 2", 2, 2688, 2048),
    fused("161 frames, batch 2", 2, 8064, 2048),
    layer_norm("plain", 8192, 4096),
]
