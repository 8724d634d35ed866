"""What is right. `kernels verify` calls rms_norm with float64 tensors and the scalars, all by name; without the command
scripts/benchmark_example.py calls inputs and reference."""

import torch


def rms_norm(x, eps, weight_offset=0.0, weight=None, **others):
    normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return normed if weight is None else normed * (weight + weight_offset)


def inputs(rows, width, dtype, device):
    weight = torch.rand(width, device=device) + 0.5  # never ones: a kernel that forgets them would pass
    return torch.randn(rows, width, device=device).to(dtype), weight.to(dtype)


def reference(x, weight, eps):
    return rms_norm(x, eps, weight=weight)
