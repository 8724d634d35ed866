"""What is right: `kernels verify` calls this with float64 tensors and the scalars, all by name."""

import math

import torch
import torch.nn.functional as F


def layer_norm_gelu(x, eps, tanh, weight=None, bias=None, **others):
    y = F.layer_norm(x, x.shape[-1:], weight, bias, eps)
    # The same as F.gelu, whose 1 + erf and 1 + tanh cancel where y is far below zero, in float64 too.
    if tanh:
        return y * torch.sigmoid(math.sqrt(8 / math.pi) * (y + 0.044715 * y**3))
    return y * 0.5 * torch.special.erfc(y * -math.sqrt(0.5))
