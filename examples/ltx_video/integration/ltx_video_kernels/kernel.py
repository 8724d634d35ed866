"""The built kernel: where it is looked for, and the functions that are used of it."""

import os
import pathlib
import re
import types
from typing import Any, Dict, Union

import torch

from .errors import OptimizeError

VARIABLE = "LTX_VIDEO_KERNELS"
FUNCTIONS = (
    "adaln",
    "gate_residual",
    "gate_residual_",
    "gate_residual_adaln",
    "gate_residual_adaln_",
    "rms_norm",
    "rms_norm_",
    "rope3d",
    "rope3d_",
    "qk_norm_rope3d",
    "qk_norm_rope3d_",
    "rope3d_table",
    "rope3d_coords",
)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)

_HOW = (
    "build it with `kernels build --torch` in the example's folder, or name a build folder or a Hub repository in "
    f"optimize(..., kernel=...) or in {VARIABLE}"
)


class Kernel:
    """The functions of a kernel module, looked up once, and the options that a model was optimized with."""

    def __init__(self, module: Any, fuse_gelu: bool):
        self.module = module
        self.fuse_gelu = fuse_gelu
        # A plain-torch replacement declares that it runs anywhere; the kernel itself needs a GPU.
        self.runs_anywhere = getattr(module, "RUNS_ANYWHERE", False)
        for name in FUNCTIONS:
            function = getattr(module, name, None)
            if function is None:
                raise OptimizeError(f"the kernel {getattr(module, '__name__', module)!r} has no {name}; {_HOW}")
            setattr(self, name, function)

    def check(self, hidden_states: torch.Tensor) -> None:
        """Refuses what the kernel cannot compute."""
        if self.runs_anywhere:
            return
        if hidden_states.device.type != "cuda":
            raise OptimizeError(
                f"LTXVideoTransformer3DModel: its hidden states are on {hidden_states.device}, and the kernels are for "
                "CUDA; move the model and its inputs to a card, or restore() it"
            )
        if hidden_states.dtype not in DTYPES:
            raise OptimizeError(
                f"LTXVideoTransformer3DModel: its hidden states are {hidden_states.dtype}, and the kernels are for "
                "float32, float16 and bfloat16; cast the model with .to(...), or restore() it"
            )

    def __deepcopy__(self, memo: Dict) -> "Kernel":
        return self  # a copied model calls the same functions

    def __copy__(self) -> "Kernel":
        return self


def load(kernel: Union[None, str, pathlib.Path, types.ModuleType]) -> Any:
    """The kernel module: `kernel` itself, or what a build folder or the Hub has."""
    if kernel is None:
        kernel = os.environ.get(VARIABLE) or None
    if kernel is None:
        beside = pathlib.Path(__file__).resolve().parents[2] / "build"
        if not beside.is_dir():
            raise OptimizeError(f"no kernel: {beside} is not there and {VARIABLE} is not set; {_HOW}")
        kernel = beside
    if not isinstance(kernel, (str, os.PathLike)):
        return kernel
    import kernels

    folder = pathlib.Path(kernel)
    if folder.is_dir():
        # get_local_kernel accepts the build folder or its parent.
        try:
            return kernels.get_local_kernel(folder.resolve())
        except Exception as error:
            why = " ".join(str(error).split()).rstrip(":")
            raise OptimizeError(f"no kernel for this torch and machine in {folder}: {why}; {_HOW}") from error
    if isinstance(kernel, str) and re.fullmatch(r"[\w.-]+/[\w.-]+", kernel) and not kernel.startswith("."):
        try:
            return kernels.get_kernel(kernel, version=1)
        except Exception as error:
            why = " ".join(str(error).split())
            raise OptimizeError(f"no kernel from the Hub repository {kernel}: {why}; {_HOW}") from error
    raise OptimizeError(f"no kernel: {kernel} is no folder and no Hub repository OWNER/NAME; {_HOW}")
