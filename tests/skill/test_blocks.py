"""The skill's Python: what says that it runs on the CPU as it is, runs; signatures are the library's."""

import inspect
import pathlib
import re
import subprocess
import sys

import pytest

REFERENCES = pathlib.Path(__file__).parents[2] / "skills/cuda-kernels/references"
RUNS = "# Runs on the CPU as it is.\n"


def blocks():
    for page in sorted(REFERENCES.glob("*.md")):
        found = re.findall(r"^```python[^\n]*\n(.*?)^```$", page.read_text(), re.S | re.M)
        for number, block in enumerate(one for one in found if one.startswith(RUNS)):
            yield pytest.param(block, id=f"{page.stem}-{number}")


def test_there_are_some():
    assert len(list(blocks())) >= 3


@pytest.mark.parametrize("block", list(blocks()))
def test_it_runs(block, tmp_path):
    script = tmp_path / "block.py"
    script.write_text(block)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True)
    missing = re.search(r"No module named '(\w+)'", ran.stderr)
    if missing and missing[1] in ("kernels", "diffusers", "transformers"):
        pytest.skip(f"{missing[1]} is not installed")
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_the_hub_library_has_these_signatures():
    kernels = pytest.importorskip("kernels")
    page = (REFERENCES / "huggingface-kernels-integration.md").read_text()
    said = dict(re.findall(r"^(\w+)\((.*)\)$", page, re.M))
    assert {"get_kernel", "get_local_kernel", "has_kernel", "load_kernel", "get_locked_kernel"} <= set(said)
    for name, arguments in said.items():
        parameters = inspect.signature(getattr(kernels, name)).parameters.values()
        real, keyword = [], False
        for one in parameters:
            if one.kind is one.KEYWORD_ONLY and not keyword:
                real.append("*")
                keyword = True
            real.append(one.name if one.default is one.empty else f"{one.name}={one.default!r}")
        assert ", ".join(real) == arguments, name
