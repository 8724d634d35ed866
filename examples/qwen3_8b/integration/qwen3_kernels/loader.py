"""Where the kernel comes from: a module, a build folder, or a repository of the Hub."""

import os
import pathlib
import re

from .errors import OptimizeError

VARIABLE = "QWEN3_KERNELS"
FUNCTIONS = ("rms_norm", "add_rms_norm", "rope", "qk_norm_rope", "swiglu")
_HOW = "build it with `kernels build --torch` in examples/qwen3_8b, or pass kernel=, or set " + VARIABLE

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def _from_folder(folder: pathlib.Path):
    import kernels

    folder = folder.resolve()
    if not folder.is_dir():
        raise OptimizeError(f"{folder}: no such build folder; {_HOW}")
    try:
        return kernels.get_local_kernel(folder)
    except Exception as error:
        raise OptimizeError(f"{folder}: the kernel there cannot be loaded ({error}); {_HOW}") from error


def _from_name(name: str):
    # An existing path is a path. Anything else is a repository only if it cannot be a path, so that a
    # misspelt folder opens no connection.
    if os.path.isdir(name) or not _REPOSITORY.fullmatch(name) or name.startswith("build/"):
        return _from_folder(pathlib.Path(name))
    import kernels

    try:
        return kernels.get_kernel(name, version=1)
    except Exception as error:
        raise OptimizeError(f"{name}: the kernel cannot be loaded from the Hub ({error}); {_HOW}") from error


def load(kernel=None):
    """The kernel's Python package."""
    if kernel is None:
        kernel = os.environ.get(VARIABLE) or None
    if kernel is None:
        kernel = pathlib.Path(__file__).resolve().parents[2] / "build"
    if isinstance(kernel, str):
        kernel = _from_name(kernel)
    elif isinstance(kernel, os.PathLike):
        kernel = _from_folder(pathlib.Path(kernel))
    missing = [name for name in FUNCTIONS if not callable(getattr(kernel, name, None))]
    if missing:
        raise OptimizeError(f"kernel={kernel!r} has no {', '.join(missing)}; {_HOW}")
    return kernel
