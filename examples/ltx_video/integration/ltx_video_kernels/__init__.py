"""LTX-Video of diffusers, by the kernels of ltx-video-kernels: see `ltx_video_kernels.integration`."""

from .errors import OptimizeError
from .integration import is_optimized, optimize, restore

__all__ = ["optimize", "restore", "is_optimized", "OptimizeError"]
