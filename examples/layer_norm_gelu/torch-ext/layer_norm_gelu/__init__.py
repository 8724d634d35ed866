"""layer-norm-gelu: a CUDA kernel for PyTorch (layer_norm_gelu)."""

from . import layers
from .layer_norm_gelu import layer_norm_gelu

__all__ = [
    "layer_norm_gelu",
    "layers",
]
