"""The family layer_norm_gelu's rows of benchmark.py."""

import torch.nn.functional as F
from benchmark import Row


def layer_norm_gelu(rows, width, approximate="none"):
    return Row(
        f"layer_norm_gelu, {approximate}: {rows} x {width}",
        lambda draw: {"x": draw(rows, width), "weight": draw(width), "bias": draw(width)},
        lambda kernel, x, weight, bias: kernel.layer_norm_gelu(x, weight, bias, approximate=approximate),
        lambda x, weight, bias: F.gelu(F.layer_norm(x, x.shape[-1:], weight, bias), approximate=approximate),
    )


ROWS = [
    layer_norm_gelu(16384, 768),
    layer_norm_gelu(8192, 4096),
    layer_norm_gelu(8192, 4096, "tanh"),
    layer_norm_gelu(4096, 16384),
]
