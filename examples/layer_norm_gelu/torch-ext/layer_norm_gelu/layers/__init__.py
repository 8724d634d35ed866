"""Layers of layer-norm-gelu, for `kernelize` of the kernels library."""

from .layer_norm_gelu import LayerNormGelu, LayerNormGeluTanh

__all__ = [
    "LayerNormGelu",
    "LayerNormGeluTanh",
]
