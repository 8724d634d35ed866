"""Messages of troubleshooting.md that come from Python: each is reproduced on the CPU."""

import ctypes
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import warnings

import pytest
import torch

TEXT = (pathlib.Path(__file__).parents[2] / "skills/cuda-kernels/references/troubleshooting.md").read_text()
NEWER = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 15)


def test_every_message_stands_in_the_page():
    source = pathlib.Path(__file__).read_text()
    messages = re.findall(r'with says\("([^"]+)"\)', source)
    assert messages
    for message in messages:
        assert message in TEXT, message


class says:
    """Expects the block to fail, or warn, with this message."""

    def __init__(self, message):
        self.message = message

    def __enter__(self):
        self.caught = warnings.catch_warnings(record=True)
        self.warned = self.caught.__enter__()
        warnings.simplefilter("always")

    def __exit__(self, kind, error, trace):
        self.caught.__exit__(kind, error, trace)
        said = [str(one.message) for one in self.warned] + ([str(error)] if error is not None else [])
        assert any(self.message in text for text in said), said
        return True


def run(code, **environment):
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1", **environment}
    )
    return ran.stderr


def library(folder, name, source):
    """A shared object of C, with the name of a Python module."""
    (folder / "source.c").write_text(source)
    path = folder / f"{name}.abi3.so"
    include = sysconfig.get_path("include")
    subprocess.run(["gcc", "-shared", "-fPIC", f"-I{include}", "-o", path, folder / "source.c"], check=True)
    return path


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    return importlib.util.module_from_spec(spec)


# Load


def test_a_module_under_another_name(tmp_path):
    path = library(tmp_path, "mine", "int nothing;\n")
    with says("dynamic module does not define module export function (PyInit_"):
        load("mine", path)


def test_a_launcher_that_is_not_there(tmp_path):
    path = library(tmp_path, "mine", "int rms_norm_launch(void);\nint PyInit_mine(void) { return rms_norm_launch(); }\n")
    with says("undefined symbol: rms_norm_launch"):
        ctypes.CDLL(str(path), mode=os.RTLD_NOW)


def test_one_namespace_twice():
    kept = torch.library.Library("skill_twice", "DEF")
    with says("Only a single TORCH_LIBRARY can be used to register the namespace"):
        torch.library.Library("skill_twice", "DEF")
    assert kept


def test_get_kernel_without_a_version():
    kernels = pytest.importorskip("kernels")
    with says("A kernel version or revision must be specified"):
        kernels.get_kernel("someone/kernel")
    with says("Only one of `revision` or `version` must be specified"):
        kernels.get_kernel("someone/kernel", revision="main", version=1)


def test_no_variant(tmp_path):
    kernels = pytest.importorskip("kernels")
    (tmp_path / "build").mkdir()
    with says("Cannot find a build variant for this system in"):
        kernels.get_local_kernel(tmp_path)
    (tmp_path / "build/torch99-cxx11-cu130-x86_64-linux").mkdir()
    with says("does not match environment Torch version"):
        kernels.get_local_kernel(tmp_path)
    (tmp_path / "build/torch-rocm").mkdir()
    with says("does not match system backend"):
        kernels.get_local_kernel(tmp_path)


def test_offline_and_local():
    pytest.importorskip("kernels")
    code = "import kernels; kernels.get_kernel('someone/kernel', version=1)"
    assert "is not available in the local cache and Hugging Face Hub is in offline mode" in run(code)
    assert "Invalid LOCAL_KERNELS entry" in run(code, LOCAL_KERNELS="nonsense")


LAYERS = """
import torch
class State(torch.nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x): return x
class Member(torch.nn.Module):
    extra = 1
    def forward(self, x): return x
class More(torch.nn.Module):
    def forward(self, x, y): return x
class Kind(torch.nn.Module):
    def forward(self, *x): return x
"""


def test_layers_that_kernelize_refuses(tmp_path):
    kernels = pytest.importorskip("kernels")
    variant = tmp_path / "build/torch-cuda"
    (variant / "layers").mkdir(parents=True)
    (variant / "__init__.py").write_text("from . import layers\n__all__ = ['layers']\n")
    (variant / "layers/__init__.py").write_text(LAYERS)
    metadata = {"name": "some-layers", "id": "_some_layers_cuda_0000000", "version": 1, "license": "Apache-2.0", "python-depends": []}
    (variant / "metadata.json").write_text(json.dumps({**metadata, "backend": {"type": "cuda"}}))

    @kernels.use_kernel_forward_from_hub("Layer")
    class Layer(torch.nn.Module):
        def forward(self, x):
            return x

    def kernelize(name, mapped="Layer"):
        mapping = {mapped: {"cpu": kernels.LocalLayerRepository(tmp_path, layer_name=name)}}
        with kernels.use_kernel_mapping(mapping, inherit_mapping=False):
            kernels.kernelize(
                torch.nn.Sequential(Layer()), mode=kernels.Mode.INFERENCE, device="cpu", use_fallback=False
            )

    with says("must not override nn.Module constructor"):
        kernelize("State")
    with says("must not contain additional members"):
        kernelize("Member")
    with says("different number of arguments"):
        kernelize("More")
    with says("different kind of arguments"):
        kernelize("Kind")
    with says("No layer mapping for"):
        kernelize("Kind", mapped="Other")


def test_transformers_wants_another_version_of_kernels():
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen3Config(
        num_hidden_layers=1, hidden_size=32, intermediate_size=32, num_attention_heads=2, num_key_value_heads=1,
        head_dim=16, vocab_size=16,
    )  # fmt: skip
    with says("Kernels are not available. Please install a compatible version"):
        transformers.Qwen3ForCausalLM(config).set_use_kernels(True)


# torch.compile, autograd


def compiled(function):
    return torch.compile(function, fullgraph=True, backend="eager")(torch.ones(2))


def test_ctypes_in_a_compiled_region():
    c = ctypes.CDLL(None)
    # torch 2.11 and 2.15 say it differently.
    message = "Dynamo does not know how to trace method" if NEWER else "Attempted to call function marked as skipped"
    assert message in TEXT
    with says(message):
        compiled(lambda x: (c.abs(-3), x + 1)[1])


def test_ops_without_a_fake():
    @torch.library.custom_op("skill::custom", mutates_args=())
    def custom(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    with says("There was no fake impl registered for"):
        compiled(custom)
    ops = torch.library.Library("skill_nofake", "DEF")
    ops.define("f(Tensor x) -> Tensor")
    ops.impl("f", lambda x: x.detach().clone(), "CPU")
    with says("Operator does not support running with fake tensors"):
        compiled(torch.ops.skill_nofake.f)
    with says("there was no fake impl or Meta kernel registered"):
        torch.ops.skill_nofake.f(torch.ones(2, device="meta"))
    weight = torch.ones(2, requires_grad=True)
    with says("an autograd kernel was not registered to the Autograd key(s)"):
        torch.ops.skill_nofake.f(weight).sum().backward()
    assert weight.grad is None  # silently


def test_an_op_that_returns_its_argument():
    ops = torch.library.Library("skill_alias", "DEF")
    ops.define("f_(Tensor(a!) x) -> Tensor(a!)")
    ops.define("g_(Tensor(a!) x) -> ()")
    ops.impl("f_", lambda x: x.mul_(2), "CPU")
    ops.impl("g_", lambda x: x.mul_(2) and None if x.numel() == 1 else None, "CPU")
    torch.library.register_fake("skill_alias::f_", lambda x: x, lib=ops)
    torch.library.register_fake("skill_alias::g_", lambda x: None, lib=ops)

    def through(op):
        def run(x):
            y = x + 1
            op(y)
            return y

        return torch.compile(run, backend="aot_eager", fullgraph=True)(torch.ones(1))

    with says("Found a custom (non-ATen) operator whose output has alias annotations"):
        through(torch.ops.skill_alias.f_)
    assert through(torch.ops.skill_alias.g_).item() == 4


def test_a_number_recompiles_as_an_ops_argument_too():
    from torch._dynamo.testing import CompileCounter

    ops = torch.library.Library("skill_number", "DEF")
    ops.define("f(Tensor x, float eps) -> Tensor")
    ops.impl("f", lambda x, eps: x + eps, "CPU")
    torch.library.register_fake("skill_number::f", lambda x, eps: torch.empty_like(x), lib=ops)
    for function, number, frames in (
        (lambda x, eps: torch.ops.skill_number.f(x, eps), float, 3),
        (lambda x, eps: x + eps, torch.tensor, 1),
    ):
        torch._dynamo.reset()
        counter = CompileCounter()
        run = torch.compile(function, backend=counter)
        for eps in (1e-6, 2e-6, 3e-6):
            run(torch.ones(3), number(eps))
        assert counter.frame_count == frames


def test_no_gradient():
    with says("element 0 of tensors does not require grad and does not have a grad_fn"):
        torch.ones(2).sum().backward()


# Patching


def test_a_norm_without_a_weight():
    normalization = pytest.importorskip("diffusers.models.normalization")
    norm = normalization.RMSNorm(8, eps=1e-6, elementwise_affine=False)
    with says("'NoneType' object has no attribute 'dtype'"):
        norm.weight.dtype  # noqa: B018


def test_a_block_under_another_name():
    diffusers = pytest.importorskip("diffusers")
    model = diffusers.LTXVideoTransformer3DModel(
        num_layers=1, num_attention_heads=2, attention_head_dim=24, cross_attention_dim=48, in_channels=8,
        caption_channels=16,
    )  # fmt: skip
    block = model.transformer_blocks[0]
    block.__class__ = type("Block", (type(block),), {})
    with says("Regional compilation failed because"):
        model.compile_repeated_blocks()


def test_a_weight_of_another_dtype():
    with says("Cannot dispatch to fused implementation"):
        torch.nn.functional.rms_norm(torch.ones(2, 8, dtype=torch.bfloat16), (8,), torch.ones(8))
