"""What is right, in double precision; the elements before they are rounded."""

import torch


def quant_rows(x, **others):
    scale = x.abs().amax(dim=-1) / 127
    divisor = torch.where(scale > 0, scale, 1.0)
    return x / divisor[:, None], scale
