"""The family rmsnorm's rows of benchmark.py."""

import torch
import torch.nn.functional as F
from benchmark import Row


def rms_norm(name, rows, width, weight=True):
    return Row(
        f"rms_norm, {name}: {rows} x {width}",
        lambda draw: {"x": draw(rows, width)} | ({"weight": draw(width)} if weight else {}),
        lambda kernel, x, weight=None: kernel.rms_norm(x, weight, 1e-6),
        lambda x, weight=None: F.rms_norm(x, (x.shape[-1],), weight, 1e-6),
    )


def qwen3(x, weight):
    # Qwen3RMSNorm.forward
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def rounded_first(rows, width):
    return Row(
        f"rms_norm, rounded first as Qwen3's module: {rows} x {width}",
        lambda draw: {"x": draw(rows, width), "weight": draw(width)},
        lambda kernel, x, weight: kernel.rms_norm(x, weight, 1e-6, 0.0, True),
        qwen3,
    )


def added(x, residual, weight):
    total = residual + x
    return F.rms_norm(total, (total.shape[-1],), weight, 1e-6), total


def add_rms_norm(rows, width):
    return Row(
        f"add_rms_norm, Qwen3-8B: {rows} x {width}",
        lambda draw: {"x": draw(rows, width), "residual": draw(rows, width), "weight": draw(width)},
        lambda kernel, x, residual, weight: kernel.add_rms_norm(x, residual, weight, 1e-6),
        added,
    )


ROWS = [
    rms_norm("Qwen3-8B", 128, 4096),
    rms_norm("Qwen3-8B", 1024, 4096),
    rms_norm("Qwen3-8B", 8192, 4096),
    rms_norm("LTX-Video norm1, 49 frames, batch 2", 5376, 2048, weight=False),
    rms_norm("LTX-Video norm1, 161 frames, batch 2", 16128, 2048, weight=False),
    rounded_first(1024, 4096),
    add_rms_norm(128, 4096),
    add_rms_norm(8192, 4096),
]
