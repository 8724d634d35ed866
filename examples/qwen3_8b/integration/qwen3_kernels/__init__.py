"""transformers' Qwen3 and its kin on our kernels: ``optimize``, ``restore``."""

from .configs import config
from .errors import OptimizeError
from .integration import is_optimized, optimize, restore

__all__ = ["OptimizeError", "config", "is_optimized", "optimize", "restore"]
