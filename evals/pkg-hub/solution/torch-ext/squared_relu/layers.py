import torch
from torch import nn

from .functional import squared_relu


class SquaredReLU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return squared_relu(x)
