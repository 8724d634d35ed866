"""What is right: `kernels verify` and the tests call these with float64 tensors and the scalars, all by name."""

import torch


def @OP@(x, **others):
    return x * x


def @OP@_backward(d_out, x, **others):
    with torch.enable_grad():
        inputs = [tensor.detach().requires_grad_() for tensor in (x,)]
        return torch.autograd.grad(@OP@(*inputs), inputs, d_out)
