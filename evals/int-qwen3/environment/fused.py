"""Our kernel as it is called from Python. Here it is torch's formula: what it computes, on a machine without a card."""

import torch


def rms_norm(x, weight=None, eps=1e-6):
    """x * rsqrt(mean(x^2) + eps) * weight over the last dimension, in float32, rounded once.

    x is contiguous; weight has x's dtype and the size of its last dimension, or is None. There is no gradient.
    """
    if torch.is_grad_enabled() and (x.requires_grad or (weight is not None and weight.requires_grad)):
        raise RuntimeError("fused.rms_norm has no gradient")
    if not x.is_contiguous() or (weight is not None and (weight.dtype != x.dtype or weight.shape != x.shape[-1:])):
        raise RuntimeError("fused.rms_norm takes contiguous tensors of one dtype")
    out = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return (out if weight is None else out * weight.float()).to(x.dtype)
