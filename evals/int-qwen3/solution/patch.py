"""Puts `fused.rms_norm` into a Qwen3 model of transformers, and takes it out again."""

import types

import fused
import torch
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm


def _forward(self, hidden_states):
    weight = self.weight
    learns = torch.is_grad_enabled() and (hidden_states.requires_grad or weight.requires_grad)
    if learns or hidden_states.dtype != weight.dtype:
        return type(self).forward(self, hidden_states)
    return fused.rms_norm(hidden_states.contiguous(), weight, self.variance_epsilon)


def _is_ours(norm):
    return getattr(vars(norm).get("forward"), "__func__", None) is _forward


def patch(model):
    """The number of norms that go through the kernel from now on."""
    norms = [norm for norm in model.modules() if type(norm) is Qwen3RMSNorm and "forward" not in vars(norm)]
    for norm in norms:
        norm.forward = types.MethodType(_forward, norm)
    return len(norms)


def restore(model):
    """The number of norms that were put back."""
    norms = [norm for norm in model.modules() if _is_ours(norm)]
    for norm in norms:
        del norm.forward
    return len(norms)
