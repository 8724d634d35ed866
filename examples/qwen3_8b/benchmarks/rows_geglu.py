"""The family geglu's rows of benchmark.py."""

import torch.nn.functional as F
from benchmark import Row


def eager_geglu(x):
    value, gate = x.chunk(2, dim=-1)
    return value * F.gelu(gate)


def eager_swiglu(gate, up):
    return F.silu(gate) * up


def eager_packed(x):
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def geglu(name, rows, inner):
    return Row(
        f"geglu, {name}: {rows} x {inner}",
        lambda draw: {"x": draw(rows, 2 * inner)},
        lambda kernel, x: kernel.geglu(x),
        eager_geglu,
    )


def swiglu(name, rows, width):
    return Row(
        f"swiglu, {name}: {rows} x {width}",
        lambda draw: {"gate": draw(rows, width), "up": draw(rows, width)},
        lambda kernel, gate, up: kernel.swiglu(gate, up),
        eager_swiglu,
    )


def packed(name, rows, inner):
    return Row(
        f"swiglu_packed, {name}: {rows} x {inner}",
        lambda draw: {"x": draw(rows, 2 * inner)},
        lambda kernel, x: kernel.swiglu_packed(x, True),
        eager_packed,
    )


ROWS = [
    geglu("SD1.5, 16 x 16, batch 2", 512, 5120),
    geglu("SDXL, 64 x 64, batch 2", 8192, 2560),
    swiglu("Qwen3-8B", 128, 12288),
    swiglu("Qwen3-8B", 1024, 12288),
    swiglu("Qwen3-8B", 8192, 12288),
    packed("Phi-3-mini", 1024, 8192),
]
