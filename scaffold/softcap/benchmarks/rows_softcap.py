"""The family softcap's rows of benchmark.py."""

import torch
from benchmark import Row


def softcap(name, rows, width):
    return Row(
        f"softcap, {name}: {rows} x {width}",
        lambda draw: {"x": draw(rows, width)},
        lambda kernel, x: kernel.softcap(x, 30.0),
        lambda x: 30.0 * torch.tanh(x / 30.0),
    )


ROWS = [
    softcap("Gemma 2's logits", 128, 256000),
    softcap("Gemma 2's logits, one token", 1, 256000),
]
