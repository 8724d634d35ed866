"""Layers of qwen3-kernels, for `kernelize` of the kernels library."""

from .geglu import GEGLU, PackedSwiGLUMLP, SiluAndMul, SwiGLU, SwiGLUMLP
from .rmsnorm import DiffusersRMSNorm, GemmaRMSNorm, RMSNorm, TransformersRMSNorm
from .rope import ApplyRotaryPosEmb

__all__ = [
    "GEGLU",
    "SwiGLU",
    "SiluAndMul",
    "SwiGLUMLP",
    "PackedSwiGLUMLP",
    "RMSNorm",
    "DiffusersRMSNorm",
    "TransformersRMSNorm",
    "GemmaRMSNorm",
    "ApplyRotaryPosEmb",
]
