"""qwen3-kernels: CUDA kernels for PyTorch (geglu, rmsnorm, rope)."""

from . import layers
from .geglu import geglu, swiglu, swiglu_packed
from .rmsnorm import add_rms_norm, add_rms_norm_, rms_norm, rms_norm_
from .rope import apply_rotary_pos_emb, qk_norm_rope, qk_norm_rope_, rope, rope_

__all__ = [
    "geglu",
    "swiglu",
    "swiglu_packed",
    "rms_norm",
    "rms_norm_",
    "add_rms_norm",
    "add_rms_norm_",
    "rope",
    "rope_",
    "qk_norm_rope",
    "qk_norm_rope_",
    "apply_rotary_pos_emb",
    "layers",
]
