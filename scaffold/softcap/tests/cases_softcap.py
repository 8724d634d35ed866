"""The calls of the family softcap, for test_ops.py."""

import torch
from support import Case


def capped(x, cap):
    return cap * torch.tanh(x / cap)


CASES = [
    Case(
        "softcap",
        lambda draw, n: {"x": draw(n, 3, 64)},
        lambda kernel, x: kernel.softcap(x, 30.0),
        lambda x, dtype: capped(x, 30.0),
        ("x",),
    ),
    Case(
        "softcap of an odd width, low",
        lambda draw, n: {"x": draw(n, 2051)},
        lambda kernel, x: kernel.softcap(x, 0.5),
        lambda x, dtype: capped(x, 0.5),
        ("x",),
    ),
    Case(
        "softcap_",
        lambda draw, n: {"x": draw(n, 256)},
        lambda kernel, x: kernel.softcap_(x.clone(), 2.0),
        lambda x, dtype: capped(x, 2.0),
    ),
]
