"""A tensor times a number."""

import torch

from . import layers
from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("scale"))
def _(x, factor):
    return torch.empty_like(x)


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    """``factor * x``."""
    return ops.scale(x, factor)


__all__ = ["layers", "scale"]
