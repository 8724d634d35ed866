"""What the tests have in common: loading, cases, and how near to the exact result a result must be."""

import dataclasses
import functools
import os
import pathlib
import sys
from typing import Callable, Dict, Tuple

import kernels
import pytest
import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
DEVICE = "cuda"

needs_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: nothing can be computed here")
needs_two_cards = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two CUDA devices")

# What is refused is refused in front of the first launch, so a machine without a card can try it too.
ANYWHERE = [
    "cpu",
    pytest.param("cuda", marks=needs_card),
]


def build_folder() -> pathlib.Path:
    """Where the builds lie: in the project's folder, or where KERNEL_BUILD says."""
    here = pathlib.Path(__file__).resolve().parent.parent
    return pathlib.Path(os.environ.get("KERNEL_BUILD", here / "build"))


@functools.lru_cache(maxsize=None)
def load():
    folder = build_folder()
    if not folder.is_dir():
        pytest.exit(f"{folder} is not there: build the kernel first, or set KERNEL_BUILD", returncode=2)
    return kernels.get_local_kernel(folder)


def ops_of(kernel):
    """The namespace of the ops."""
    return sys.modules[f"{kernel.__name__}._ops"].ops


class Draw:
    """Normal numbers of a device and a dtype, always the same ones."""

    def __init__(self, device, dtype: torch.dtype, seed: int = 0):
        self.device, self.dtype = device, dtype
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, dtype=None) -> torch.Tensor:
        drawn = torch.randn(shape, generator=self.generator)
        return drawn.to(self.dtype if dtype is None else dtype).to(self.device)


@dataclasses.dataclass(frozen=True)
class Case:
    """A call of an op, and what is right.

    name: in the test's id
    make: (draw, n) -> the arguments by name; n is the size that changes from call to call, and may be 0
    call: (kernel, **arguments) -> a tensor or a tuple of them
    exact: (**arguments, floating ones in float64, dtype) -> the same
    differentiable: the arguments that it has gradients by
    roundings: to the dtype, on the way to a result
    magnitude: exact result -> the size of what is rounded on the way, element by element. A rotation may cancel most of
        what it adds, but not the roundings in it
    """

    name: str
    make: Callable[..., Dict[str, object]]
    call: Callable[..., object]
    exact: Callable[..., object]
    differentiable: Tuple[str, ...] = ()
    roundings: int = 1
    magnitude: Callable[[torch.Tensor], torch.Tensor] = torch.abs

    def __str__(self) -> str:
        return self.name


def tensors(outputs) -> Tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def exact(case: Case, arguments: Dict[str, object], dtype: torch.dtype) -> Tuple[torch.Tensor, ...]:
    def widened(value):
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return tensors(case.exact(**{name: widened(value) for name, value in arguments.items()}, dtype=dtype))


def assert_near(
    actual: torch.Tensor, right: torch.Tensor, roundings: int = 1, cancels: bool = False, magnitude=torch.abs
) -> None:
    """Half a unit in the last place a rounding, and what float32 arithmetic may add. cancels: what is rounded is added
    to something afterwards, so the units are those of the largest result. magnitude: as in Case."""
    assert actual.shape == right.shape
    if right.numel() == 0:
        return
    limits = torch.finfo(actual.dtype)
    rounded = right.abs().max() if cancels else magnitude(right)
    allowed = roundings * (limits.eps / 2 * rounded + limits.smallest_normal * limits.eps)
    allowed = allowed * 1.001 + 1e-5 * right.abs().max()
    wrong = ~((actual.double() - right).abs() <= allowed)  # a NaN is wrong
    if wrong.any():
        where = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.numel()} elements are wrong; at {where} {actual[where].item()} for "
            f"{right[where].item()}, allowed {(allowed + 0 * right)[where].item():.3g} off"
        )


def check(case: Case, outputs, arguments: Dict[str, object], dtype: torch.dtype) -> None:
    outputs, right = tensors(outputs), exact(case, arguments, dtype)
    assert len(outputs) == len(right)
    for one, other in zip(outputs, right):
        assert one.dtype == dtype
        assert_near(one, other, case.roundings, magnitude=case.magnitude)


def kernelized(module: torch.nn.Module, layer: str, mode: kernels.Mode) -> torch.nn.Module:
    """The module with the layer's forward, through the Hub library's kernelize."""
    extensible = type(type(module).__name__, (type(module),), {})
    kernels.replace_kernel_forward_from_hub(extensible, layer)
    module.__class__ = extensible
    repository = kernels.LocalLayerRepository(build_folder(), layer_name=layer)
    with kernels.use_kernel_mapping({layer: {"cuda": {mode: repository}}}, inherit_mapping=False):
        kernels.kernelize(module, mode=mode, device="cuda", use_fallback=False)
    assert module.forward.__func__ is getattr(load().layers, layer).forward
    return module


def validated(reference: type, layer: str) -> None:
    """Whether the Hub's library lets the layer stand in for a module of the reference's class."""
    from kernels.layer.layer import _validate_layer

    _validate_layer(check_cls=reference, cls=getattr(load().layers, layer), repo=layer)
