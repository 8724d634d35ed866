"""A project's kernels on tensors.

    rms_norm = Project.open("kernels/rmsnorm").operation("rms_norm")
    y = rms_norm(x=x, weight=weight, eps=1e-6)
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Union

from . import _native
from .errors import Error

__all__ = ["Operation", "Project", "TensorArgument"]


@dataclass(frozen=True)
class TensorArgument:
    """A tensor of an operation, as declared in kernel.toml."""

    name: str
    role: str
    """`input`, `output`, `inout` or `scratch`."""
    shape: tuple[str, ...]
    optional: bool


class Project:
    """A folder with build.toml and kernel.toml. nvcc compiles it at the first launch on a GPU architecture; later launches
    use the cache of `kernels build`."""

    def __init__(self, folder: Union[str, os.PathLike[str]]) -> None:
        self._native = _native.Project(os.fspath(folder))
        self.name = self._native.name()
        self.root = self._native.root()
        self.operations = {
            entry["name"]: Operation(self._native, entry) for entry in json.loads(self._native.operations())
        }

    @classmethod
    def open(cls, folder: Union[str, os.PathLike[str]]) -> Project:
        """Reads and checks a project. Raises Error with every problem and its line."""
        return cls(folder)

    def operation(self, name: str) -> Operation:
        try:
            return self.operations[name]
        except KeyError:
            raise Error(f"{self.name} has no operation {name}; there are {', '.join(self.operations)}") from None

    def __repr__(self) -> str:
        return f"Project({self.name}: {', '.join(self.operations)})"


class Operation:
    """One launcher. Call it with tensors and values by their names in kernel.toml."""

    def __init__(self, native: _native.Project, entry: dict[str, Any]) -> None:
        self._native = native
        self.name: str = entry["name"]
        self.dtypes: tuple[str, ...] = tuple(entry["dtypes"])
        self.tensors = tuple(
            TensorArgument(tensor["name"], tensor["role"], tuple(tensor["shape"]), tensor["optional"])
            for tensor in entry["tensors"]
        )
        self.values: tuple[str, ...] = tuple(entry["values"])
        self._results = [tensor.name for tensor in self.tensors if tensor.role in ("output", "inout")]

    def __repr__(self) -> str:
        return f"Operation({self.name}: {', '.join(tensor.name for tensor in self.tensors)})"

    def __call__(self, *, stream: int | None = None, **given: Any) -> Any:
        """Launches on torch's current stream (`stream`: on that `cudaStream_t`), and returns the results: a tensor, or a tuple
        in the order of kernel.toml.

        Tensors may come from any library that supports DLPack. Sizes, strides and the presence of optional tensors are
        derived from them; an argument that does not fit raises an Error that names it. torch allocates outputs and scratch
        that are not given. Autograd records nothing.
        """
        values, tensors = {}, {}
        for name, value in given.items():
            if value is None:
                continue
            if hasattr(value, "__dlpack__") and not isinstance(value, (int, float)):
                tensors[name] = value.detach() if hasattr(value, "detach") else value
            elif isinstance(value, (bool, int, float)):
                values[name] = float(value)
            else:
                raise Error(f"{self.name}: {name} is a {type(value).__name__}, neither a tensor nor a number")
        if not tensors:
            wanted = ", ".join(tensor.name for tensor in self.tensors if tensor.role in ("input", "inout"))
            raise Error(f"{self.name}: no tensor is given; it takes {wanted}")
        device = _device(self.name, tensors)
        if stream is not None:
            return self._launched(tensors, values, device, stream)
        torch = _torch()
        with torch.cuda.device(device):
            return self._launched(tensors, values, device, torch.cuda.current_stream().cuda_stream)

    def _launched(self, tensors: dict[str, Any], values: dict[str, float], device: int, stream: int) -> Any:
        if any(tensor.name not in tensors and tensor.role in ("output", "scratch") for tensor in self.tensors):
            for entry in json.loads(self._native.fit(self.name, tensors, values, stream)):
                tensors[entry["name"]] = _allocated(entry, device)
        self._native.launch(self.name, tensors, values, device, stream)
        results = tuple(tensors[name] for name in self._results if name in tensors)
        return results[0] if len(results) == 1 else results


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise Error("torch is not installed: give stream= and every output, or install it") from error
    return torch


def _device(operation: str, tensors: dict[str, Any]) -> int:
    """The device of the tensors."""
    found: dict[int, str] = {}
    for name, tensor in tensors.items():
        kind, index = tensor.__dlpack_device__()
        # kDLCUDA and kDLCUDAManaged.
        if int(kind) not in (2, 13):
            raise Error(f"{operation}: {name} is not on a card; move it there with .cuda()")
        found.setdefault(int(index), name)
    if len(found) > 1:
        places = ", ".join(f"{name} on card {index}" for index, name in found.items())
        raise Error(f"{operation}: the tensors are on different cards: {places}")
    return next(iter(found))


def _allocated(entry: dict[str, Any], device: int) -> Any:
    torch = _torch()
    names = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "i64": torch.int64}
    return torch.empty_strided(entry["shape"], entry["strides"], dtype=names[entry["dtype"]], device=f"cuda:{device}")
