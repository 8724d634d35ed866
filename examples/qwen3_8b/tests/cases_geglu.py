"""The calls of the family geglu, for test_ops.py."""

import torch.nn.functional as F
from support import Case


def gated(x, activation, gate_first):
    value, gate = reversed(x.chunk(2, -1)) if gate_first else x.chunk(2, -1)
    return value * activation(gate)


def packed(inner):
    return lambda draw, n: {"x": draw(n, 3, 2 * inner)}


def two(width):
    return lambda draw, n: {"gate": draw(2, n, width), "up": draw(2, n, width)}


def geglu(inner, approximate, gate_first):
    return Case(
        f"geglu of {inner}, {approximate}" + (", gate first" if gate_first else ""),
        packed(inner),
        lambda kernel, x: kernel.geglu(x, approximate, gate_first),
        lambda x, dtype: gated(x, lambda gate: F.gelu(gate, approximate=approximate), gate_first),
        ("x",),
    )


def swiglu_packed(inner, gate_first):
    return Case(
        f"swiglu_packed of {inner}" + (", gate first" if gate_first else ""),
        packed(inner),
        lambda kernel, x: kernel.swiglu_packed(x, gate_first),
        lambda x, dtype: gated(x, F.silu, gate_first),
        ("x",),
    )


def swiglu(width):
    return Case(
        f"swiglu of {width}",
        two(width),
        lambda kernel, gate, up: kernel.swiglu(gate, up),
        lambda gate, up, dtype: F.silu(gate) * up,
        ("gate", "up"),
    )


CASES = [
    geglu(1280, "none", False),
    geglu(33, "tanh", False),
    geglu(64, "none", True),
    geglu(128, "tanh", True),
    swiglu_packed(512, False),
    swiglu_packed(67, True),
    swiglu(4096),
    swiglu(35),
]
