import torch
from squared_relu.functional import squared_relu
from torch import nn


class SquaredReLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return squared_relu(x)
