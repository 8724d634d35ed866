"""What nvcc says of the example, where there is one: KERNELS_NVCC, NVCC, or the tests' own."""

import glob
import os
import shutil
import subprocess

import pytest
from support import load


def nvcc():
    cache = os.environ.get("KERNELS_TEST_CACHE", os.path.expanduser("~/.cache/kernels-tests"))
    own = glob.glob(f"{cache}/cuda/toolchain-*/nvidia/cu13/bin/nvcc")
    places = [os.environ.get("KERNELS_NVCC"), os.environ.get("NVCC"), *own, shutil.which("nvcc")]
    return next((p for p in places if p and os.path.isfile(p)), None)


needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="not run: the skill's example by nvcc, for want of it")


@needs_nvcc
@pytest.mark.parametrize("arch", [75, 80, 90])
def test_the_example_compiles_without_a_warning(tmp_path, arch):
    (tmp_path / "geglu.cu").write_text(load("benchmark_example").EXAMPLE_CU)
    command = [
        nvcc(),
        "-O3",
        "-std=c++17",
        "-Werror",
        "all-warnings",
        f"-arch=sm_{arch}",
        "-Xptxas",
        "-v",
        "-c",
        "geglu.cu",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert " 0 bytes spill stores" in done.stderr and done.stderr.count(" 0 bytes spill stores") == done.stderr.count(
        "spill stores"
    )


@needs_nvcc
def test_a_launcher_is_compiled_and_loaded(tmp_path, monkeypatch):
    """As on a card, up to the launch, which says that there is none."""
    import torch

    module = load("benchmark_example")
    (tmp_path / "geglu.cu").write_text(module.EXAMPLE_CU)
    monkeypatch.setenv("NVCC", nvcc())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    launcher = module.Launcher(torch, [str(tmp_path / "geglu.cu")])
    assert launcher.symbol == "geglu_launch"
    assert [kind if isinstance(kind, str) else name for kind, name in launcher.plan] == [
        "output", "input", "rows", "inner", "dtype", "stream",
    ]  # fmt: skip
    if torch.cuda.is_available():
        return
    x = torch.ones(2, 16)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: type("Stream", (), {"cuda_stream": 0}))
    with pytest.raises(module.Wrong, match="geglu_launch returned"):
        launcher([x], [torch.ones(2, 8)], {"rows": 2, "inner": 8})
    with pytest.raises(module.Wrong, match="geglu_launch returned 1"):
        launcher([x], [torch.ones(2, 8)], {"rows": -2, "inner": 8})
    launcher([x], [torch.ones(2, 8)], {"rows": 0, "inner": 8})
