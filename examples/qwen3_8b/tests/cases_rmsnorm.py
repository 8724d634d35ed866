"""The calls of the family rmsnorm, for test_ops.py."""

import torch
from support import Case


def norm(x, weight, eps, offset=0.0, rounded=None):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    if rounded is not None:
        y = y.to(rounded).double()
    return y if weight is None else y * (weight + offset)


def make(width):
    return lambda draw, n: {"x": draw(n, 3, width), "weight": draw(width)}


def make_two(width):
    return lambda draw, n: {"x": draw(2, n, width), "residual": draw(2, n, width), "weight": draw(width)}


def total(x, residual, dtype):
    # The sum is rounded as it is stored; its gradient passes.
    y = x + residual
    return y + (y.detach().to(dtype).double() - y.detach())


def added(x, residual, weight, dtype, **options):
    y = total(x, residual, dtype)
    return norm(y, weight, 1e-6, **options), y


CASES = [
    Case(
        "rms_norm",
        make(64),
        lambda kernel, x, weight: kernel.rms_norm(x, weight, 1e-5),
        lambda x, weight, dtype: norm(x, weight, 1e-5),
        ("x", "weight"),
    ),
    Case(
        "rms_norm of 4096",
        make(4096),
        lambda kernel, x, weight: kernel.rms_norm(x, weight),
        lambda x, weight, dtype: norm(x, weight, 1e-6),
        ("x", "weight"),
    ),
    Case(
        "rms_norm of an odd width",
        make(131),
        lambda kernel, x, weight: kernel.rms_norm(x, weight),
        lambda x, weight, dtype: norm(x, weight, 1e-6),
        ("x", "weight"),
    ),
    Case(
        "rms_norm without weight",
        lambda draw, n: {"x": draw(n, 2048)},
        lambda kernel, x: kernel.rms_norm(x),
        lambda x, dtype: norm(x, None, 1e-6),
        ("x",),
    ),
    Case(
        "rms_norm, Gemma's",
        make(256),
        lambda kernel, x, weight: kernel.rms_norm(x, weight, weight_offset=1.0),
        lambda x, weight, dtype: norm(x, weight, 1e-6, 1.0),
        ("x", "weight"),
    ),
    Case(
        "rms_norm, rounded first",
        make(128),
        lambda kernel, x, weight: kernel.rms_norm(x, weight, round_first=True),
        lambda x, weight, dtype: norm(x, weight, 1e-6, rounded=dtype),
        roundings=3,
    ),
    Case(
        "rms_norm_",
        make(512),
        lambda kernel, x, weight: kernel.rms_norm_(x.clone(), weight),
        lambda x, weight, dtype: norm(x, weight, 1e-6),
    ),
    Case(
        "add_rms_norm",
        make_two(4096),
        lambda kernel, x, residual, weight: kernel.add_rms_norm(x, residual, weight),
        lambda x, residual, weight, dtype: added(x, residual, weight, dtype),
        ("x", "residual", "weight"),
        roundings=2,
    ),
    Case(
        "add_rms_norm_",
        make_two(130),
        lambda kernel, x, residual, weight: kernel.add_rms_norm_(x.clone(), residual.clone(), weight),
        lambda x, residual, weight, dtype: added(x, residual, weight, dtype),
        roundings=2,
    ),
]
