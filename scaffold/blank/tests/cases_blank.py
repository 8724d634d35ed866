"""The calls of @OP@, for test_ops.py. What is right, kernel.toml's oracle says."""

import importlib.util
import pathlib

import torch
from support import Case

_spec = importlib.util.spec_from_file_location(
    "reference_@OP@", pathlib.Path(__file__).resolve().parent.parent / "@REFERENCE@"
)
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)


def arguments(x):
    """All tensors of the same shape."""
    return {@SAME@}


def exact(@TENSORS@, dtype=torch.float64):
    return reference.@FUNCTION@(@BY_NAME@)


def case(name, width):
    return Case(
        name,
        lambda draw, n: {@DRAWN@},
        lambda kernel, @TENSORS@: kernel.@OP@(@CALLED@),
        exact,
        @DIFFERENTIABLE@,
    )


CASES = [
    case("@OP@", 64),
    case("@OP@ of an odd width", 131),
]
