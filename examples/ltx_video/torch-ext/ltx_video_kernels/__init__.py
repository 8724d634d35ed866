"""ltx-video-kernels: CUDA kernels for PyTorch (adaln, rmsnorm, rope3d)."""

from . import layers
from .adaln import (
    adaln,
    gate_residual,
    gate_residual_,
    gate_residual_adaln,
    gate_residual_adaln_,
    layer_norm,
)
from .rmsnorm import add_rms_norm, add_rms_norm_, rms_norm, rms_norm_
from .rope3d import (
    qk_norm_rope3d,
    qk_norm_rope3d_,
    rope3d,
    rope3d_,
    rope3d_coords,
    rope3d_table,
)

__all__ = [
    "layer_norm",
    "adaln",
    "gate_residual",
    "gate_residual_",
    "gate_residual_adaln",
    "gate_residual_adaln_",
    "rms_norm",
    "rms_norm_",
    "add_rms_norm",
    "add_rms_norm_",
    "rope3d",
    "rope3d_",
    "qk_norm_rope3d",
    "qk_norm_rope3d_",
    "rope3d_table",
    "rope3d_coords",
    "layers",
]
