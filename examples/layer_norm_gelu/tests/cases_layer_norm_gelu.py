"""The calls of the family layer_norm_gelu, for test_ops.py."""

import torch.nn.functional as F
from support import Case


def formula(x, weight=None, bias=None, eps=1e-5, approximate="none"):
    return F.gelu(F.layer_norm(x, x.shape[-1:], weight, bias, eps), approximate=approximate)


CASES = [
    Case(
        "layer_norm_gelu",
        lambda draw, n: {"x": draw(n, 3, 768), "weight": draw(768), "bias": draw(768)},
        lambda kernel, **given: kernel.layer_norm_gelu(**given),
        lambda dtype, **given: formula(**given),
    ),
    Case(
        "layer_norm_gelu, tanh",
        lambda draw, n: {"x": draw(n, 4096), "weight": draw(4096), "bias": draw(4096)},
        lambda kernel, **given: kernel.layer_norm_gelu(approximate="tanh", **given),
        lambda dtype, **given: formula(approximate="tanh", **given),
    ),
    Case(
        "layer_norm_gelu of an odd width, without weight and bias",
        lambda draw, n: {"x": draw(n, 2051)},
        lambda kernel, x: kernel.layer_norm_gelu(x, eps=0.5),
        lambda x, dtype: formula(x, eps=0.5),
    ),
]
