"""Puts `fused.rms_norm` into an LTX-Video transformer of diffusers, and takes it out again."""

import types

import fused
import torch
from diffusers.models.normalization import RMSNorm
from torch import nn


def _forward(self, x):
    weight = self.weight
    learns = torch.is_grad_enabled() and (x.requires_grad or (weight is not None and weight.requires_grad))
    if learns or (weight is not None and x.dtype != weight.dtype):
        return type(self).forward(self, x)
    eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
    return fused.rms_norm(x.contiguous(), weight, eps)


def _fits(norm):
    if type(norm) is RMSNorm:
        return len(norm.dim) == 1 and norm.bias is None
    return type(norm) is nn.RMSNorm and len(norm.normalized_shape) == 1


def _is_ours(norm):
    return getattr(vars(norm).get("forward"), "__func__", None) is _forward


def patch(model):
    """The number of norms that go through the kernel from now on."""
    norms = [norm for norm in model.modules() if _fits(norm) and "forward" not in vars(norm)]
    for norm in norms:
        norm.forward = types.MethodType(_forward, norm)
    return len(norms)


def restore(model):
    """The number of norms that were put back."""
    norms = [norm for norm in model.modules() if _is_ours(norm)]
    for norm in norms:
        del norm.forward
    return len(norms)
