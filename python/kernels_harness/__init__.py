"""The Python API of `kernels`: its skills, its benchmark clock, and the kernels of projects on torch tensors.

    import kernels_harness as harness

    ruler = harness.Ruler()
    ruler.time(torch.nn.functional.gelu, lambda: torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16))

This is not the Kernel Hub's library, which is named `kernels`; both can be installed. torch is imported on first use;
`skills` needs neither torch nor a GPU.
"""

from __future__ import annotations

from . import skills
from ._native import PACKAGE_VERSION as __version__
from ._native import VERSION
from .errors import Error, GpuError, RefusedError, UsageError
from .project import Operation, Project, TensorArgument
from .ruler import Card, Copy, Ruler, Timing, cards

__all__ = [
    "VERSION",
    "Card",
    "Copy",
    "Error",
    "GpuError",
    "Operation",
    "Project",
    "RefusedError",
    "Ruler",
    "TensorArgument",
    "Timing",
    "UsageError",
    "__version__",
    "cards",
    "skills",
]
