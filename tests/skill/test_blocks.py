"""The skill's Python: blocks that are marked as runnable on the CPU run, and signatures match the library."""

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


def only(page, begins):
    found = re.findall(r"^```python[^\n]*\n(.*?)^```$", (REFERENCES / page).read_text(), re.S | re.M)
    (block,) = [one for one in found if one.startswith(begins)]
    return block


def test_the_patched_ltx_video_is_found_by_compile_repeated_blocks():
    pytest.importorskip("diffusers")
    there = {"__name__": "block"}
    exec(only("diffusers-integration.md", RUNS), there)
    there["patch"](there["model"])
    there["model"].compile_repeated_blocks(fullgraph=True, backend="eager")
    with there["torch"].no_grad():
        there["torch"].testing.assert_close(there["model"](**there["inputs"])[0], there["expected"], rtol=1e-4, atol=1e-5)


def test_the_patched_qwen3_keeps_the_names_that_device_map_wants():
    pytest.importorskip("transformers")
    there = {"__name__": "block"}
    exec(only("transformers-integration.md", RUNS), there)
    model = there["model"]
    names = {type(module).__name__ for module in model.modules()}
    assert type(model.model.layers[0]).forward is there["Qwen3DecoderLayer"].forward
    assert set(model._no_split_modules) <= names


OPS = """
import torch

library = torch.library.Library("skill_binding", "DEF")
ops = torch.ops.skill_binding
library.define("rms_norm(Tensor x, Tensor? weight, float eps, float weight_offset=0.0, bool round_first=False) -> Tensor")
library.define(
    "add_rms_norm(Tensor x, Tensor residual, Tensor? weight, float eps, float weight_offset=0.0, bool round_first=False)"
    " -> (Tensor, Tensor)"
)


def rms_norm(x, weight, eps, weight_offset=0.0, round_first=False):
    n = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return n if weight is None else n * (weight + weight_offset)


library.impl("rms_norm", rms_norm, "CPU")
library.impl("add_rms_norm", lambda x, r, *rest: (rms_norm(x + r, *rest), x + r), "CPU")


def add_op_namespace_prefix(name):
    return f"skill_binding::{name}"
"""


def test_the_bindings_python_has_a_gradient_or_refuses_one(tmp_path, monkeypatch):
    import torch

    package = tmp_path / "row_kernels_of_the_skill"
    package.mkdir()
    (package / "_ops.py").write_text(OPS)
    own = REFERENCES.parent / "assets/torch_binding/torch-ext/row_kernels/__init__.py"
    (package / "__init__.py").write_text(own.read_text())
    monkeypatch.syspath_prepend(str(tmp_path))
    import row_kernels_of_the_skill as kernel

    draw = lambda *shape: torch.randn(*shape, requires_grad=True)  # noqa: E731
    for shape in ((3, 5, 8), (4, 8), (8,), (1,), (0, 8), (3, 0), (0,)):
        x, weight, grad = draw(*shape), draw(shape[-1]), torch.randn(*shape)
        for w, offset in ((weight, 0.0), (weight, 1.0), (None, 0.0)):
            leaves = [x] if w is None else [x, w]
            got = torch.autograd.grad(kernel.rms_norm(x, w, 1e-3, offset), leaves, grad)
            plain = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-3) * (1 if w is None else w + offset)
            torch.testing.assert_close(got, torch.autograd.grad(plain, leaves, grad))
    x, weight, residual = draw(3, 5, 8), draw(8), draw(3, 5, 8)
    frozen = x.detach(), residual.detach(), weight.detach()
    for at in range(3):  # whichever wants one
        given = [*frozen[:at], (x, residual, weight)[at], *frozen[at + 1 :]]
        with pytest.raises(RuntimeError, match="has no gradient"):
            kernel.add_rms_norm(*given)
    with torch.no_grad():
        kernel.add_rms_norm(x, residual, weight)


def test_kernelize_falls_back_as_the_page_says(tmp_path, caplog):
    kernels = pytest.importorskip("kernels")
    import torch

    @kernels.use_kernel_forward_from_hub("SkillLayer")
    class Layer(torch.nn.Module):
        def forward(self, x):
            return x

    def kernelize(name, device):
        caplog.clear()
        nowhere = kernels.LocalLayerRepository(tmp_path / "nowhere", layer_name="Layer")
        with kernels.use_kernel_mapping({name: {device: nowhere}}, inherit_mapping=False):
            kernels.kernelize(Layer(), mode=kernels.Mode.INFERENCE, device="cpu")
        return [record.levelname for record in caplog.records]

    assert kernelize("SkillLayer", "xpu") == []  # silently
    assert kernelize("Another", "cpu") == ["WARNING"]
    with pytest.raises(FileNotFoundError):
        kernelize("SkillLayer", "cpu")


def test_the_architectures_that_check_arch_takes():
    supports = pytest.importorskip("kernels.archs")._supports_cuda_capability
    assert supports(["8.0"], (8, 6)) and not supports(["8.0"], (9, 0)) and supports(["8.0+PTX"], (9, 0))
    assert supports(["9.0a"], (9, 0)) and not supports(["9.0a"], (10, 0)) and not supports(["8.6"], (8, 0))


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
