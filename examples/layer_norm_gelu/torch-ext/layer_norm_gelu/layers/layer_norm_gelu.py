"""The op as layers. Each lends its forward to a module that has the members named here.

None has a gradient: `kernelize` for training leaves such modules as they are.
"""

from typing import Optional

import torch
from torch import nn

from ..layer_norm_gelu import layer_norm_gelu


class LayerNormGelu(nn.Module):
    """For a ``torch.nn.LayerNorm`` over one dimension whose forward ends in ``gelu(...)``."""

    can_torch_compile = True
    has_backward = False

    weight: Optional[torch.Tensor]
    bias: Optional[torch.Tensor]
    eps: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return layer_norm_gelu(input, self.weight, self.bias, self.eps)


class LayerNormGeluTanh(nn.Module):
    """The same for ``gelu(..., approximate="tanh")``."""

    can_torch_compile = True
    has_backward = False

    weight: Optional[torch.Tensor]
    bias: Optional[torch.Tensor]
    eps: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return layer_norm_gelu(input, self.weight, self.bias, self.eps, approximate="tanh")
