"""huggingface_kernels_example.py with the Hub's library that is installed: what it loads, and what it does not let pass."""

import os
import sys

import pytest
from support import call, load, sabotaged

NAME = "huggingface_kernels_example"


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """The script sets these for itself; and the library remembers its overrides and layers."""
    import kernels.layer.layer
    import kernels.load

    monkeypatch.setenv("LOCAL_KERNELS", "")
    monkeypatch.delenv("LOCAL_KERNELS")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    kernels.load._parse_local_kernel_overrides.cache_clear()
    kernels.layer.layer._CACHED_LAYER.clear()
    # Submodules are looked up by the identity of metadata.json: of two builds with one identity the second gets the first's.
    for name in [name for name in sys.modules if name.startswith("_demo_0000000")]:
        del sys.modules[name]
    yield
    os.environ.pop("LOCAL_KERNELS", None)
    kernels.load._parse_local_kernel_overrides.cache_clear()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_throw_away_kernel(monkeypatch, capsys, dtype):
    code, report, err = call(monkeypatch, capsys, load(NAME), "--cpu", "--dtype", dtype)
    assert code == 0, (report, err)
    assert set(report) == {
        "script", "verdict", "failures", "kernels", "torch", "device", "dtype", "offline", "relative_error", "kernel",
    }  # fmt: skip
    assert list(report["relative_error"]) == [
        "get_local_kernel", "LocalLayerRepository", "LOCAL_KERNELS, get_kernel", "LOCAL_KERNELS, LayerRepository",
    ]  # fmt: skip
    assert (
        report["offline"]
        and report["kernel"]["layers"] == ["RMSNorm"]
        and report["kernel"]["functions"] == ["rms_norm"]
    )


WRONG = [
    ("x.float() * torch.rsqrt", "x.float() * torch.sqrt", "get_local_kernel: relative error"),
    ("return rms_norm(x, self.weight, self.eps)", "return rms_norm(x, None, self.eps)", "LocalLayerRepository: relative error"),
    ("x.float() * torch.rsqrt", "x.float() * float('nan') * torch.rsqrt", "get_local_kernel: relative error 1e+09"),
    ("    return (n if weight is None else n * weight.float()).to(x.dtype)\n",
     "    y = (n if weight is None else n * weight.float()).to(x.dtype)\n    y[7, 7] *= 1.1\n    return y\n", "relative error 0.1"),
    ("n * weight.float()).to(x.dtype)", "n * weight.float()).double()", "get_local_kernel: relative error 1e+09"),
    ("    can_torch_compile = True\n", "", "does not support mode"),
    ("def forward(self, x):\n        return rms_norm", "def forward(self, x, y):\n        return rms_norm", "number of arguments"),
    ("    has_backward = True\n", "    has_backward = True\n    more = 1\n", "additional members"),
    ("class RMSNorm(", "class Other(", "not found"),
    ("from .. import rms_norm", "from demo import rms_norm", "No module named 'demo'"),
    ("kernels.replace_kernel_forward_from_hub(Norm, \"ExampleNorm\")", "pass", "the stock forward ran"),
    ("layer_name=\"RMSNorm\", revision=\"main\"", "layer_name=\"RMSNorm\"", "revision or a version must be specified"),
    ("example-org/demo={}\".format(root)", "example-org/other={}\".format(root)", "not available in the local cache"),
]  # fmt: skip


@pytest.mark.parametrize("old, new, said", WRONG)
def test_what_is_wrong_is_caught(monkeypatch, capsys, old, new, said):
    code, report, _ = call(monkeypatch, capsys, load(NAME, sabotaged(NAME, (old, new))), "--cpu")
    assert code == 1 and report["verdict"] == "FAIL" and said in report["failures"][0], report


def test_a_folder(monkeypatch, capsys, tmp_path):
    module = load(NAME)
    import torch

    module.torch = torch
    root = module.write_demo(tmp_path)
    for path in (root, root / "build"):
        code, report, err = call(
            monkeypatch, capsys, load(NAME), "--cpu", "--path", path, "--check-rms-norm", "--layer", "RMSNorm"
        )
        assert code == 0 and set(report["relative_error"]) == {"rms_norm", "kernelize"}, (report, err)
    code, report, _ = call(monkeypatch, capsys, load(NAME), "--cpu", "--path", root, "--layer", "Missing")
    assert code == 1 and "Missing" in report["failures"][0]
    code, report, _ = call(monkeypatch, capsys, load(NAME), "--cpu", "--path", tmp_path / "nowhere")
    assert code == 1 and report["failures"]


def test_a_repository_that_is_not_in_the_cache(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    code, report, _ = call(monkeypatch, capsys, load(NAME), "--cpu", "--repo", "example-org/nowhere", "--version", 1)
    assert code == 1 and report["offline"] and "not available in the local cache" in report["failures"][0]
