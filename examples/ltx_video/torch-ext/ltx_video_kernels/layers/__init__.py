"""Layers of ltx-video-kernels, for `kernelize` of the kernels library."""

from .adaln import LTXVideoTransformerBlock, LayerNorm
from .rmsnorm import DiffusersRMSNorm, GemmaRMSNorm, RMSNorm, TransformersRMSNorm

__all__ = [
    "LayerNorm",
    "LTXVideoTransformerBlock",
    "RMSNorm",
    "DiffusersRMSNorm",
    "TransformersRMSNorm",
    "GemmaRMSNorm",
]
