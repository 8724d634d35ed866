"""The soft cap as a layer. It lends its forward to a module that has the member named here."""

import torch
from torch import nn

from ..softcap import softcap


class Softcap(nn.Module):
    """For a module whose forward is ``self.cap * tanh(x / self.cap)``."""

    can_torch_compile = True
    has_backward = True

    cap: float

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return softcap(x, self.cap)
