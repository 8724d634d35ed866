"""The rows of benchmark.py for @OP@. Beside it: kernel.toml's oracle, in torch's functions."""

import importlib.util
import pathlib

from benchmark import Row

_spec = importlib.util.spec_from_file_location(
    "reference_@OP@", pathlib.Path(__file__).resolve().parent.parent / "@REFERENCE@"
)
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)


def row(n, width):
    return Row(
        f"@OP@: {n} x {width}",
        lambda draw: {@BENCHED@},
        lambda kernel, @TENSORS@: kernel.@OP@(@CALLED@),
        lambda @TENSORS@: reference.@FUNCTION@(@BY_NAME@),
    )


ROWS = [
    row(128, 4096),
    row(8192, 4096),
]
