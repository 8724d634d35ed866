"""What is the family geglu's own: layouts, what is refused, layers."""

import types

import pytest
import torch
import torch.nn.functional as F
from kernels import Mode
from support import ANYWHERE, DEVICE, DTYPES, Draw, assert_near, kernelized, needs_card, validated


@pytest.mark.parametrize("device", ANYWHERE)
def test_what_is_wrong_is_named(kernel, device):
    x = Draw(device, torch.float32)(4, 64)
    for call, message in [
        (lambda: kernel.geglu(x.double()), "geglu: x must be float32, float16 or bfloat16, but is Double"),
        (
            lambda: kernel.geglu(x[:, 1:]),
            r"geglu: x's last dimension holds two halves, so it must be even, but is \[4, 63\]",
        ),
        (lambda: kernel.swiglu_packed(x[:, 1:]), r"swiglu_packed: x's last dimension holds two halves"),
        (lambda: kernel.geglu(x[0, 0]), "geglu: x must have at least one dimension"),
        (lambda: kernel.swiglu(x, x[:2]), r"swiglu: up must have gate's shape, \[4, 64\] .* \[2, 64\]"),
        (lambda: kernel.swiglu(x, x.half()), "swiglu: up must be of gate's dtype, but is Half"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(ValueError, match='approximate must be "none" or "tanh", but is \'erf\''):
        kernel.geglu(x, "erf")


def test_tensors_on_no_card_are_named(kernel):
    x = torch.ones(4, 64)
    for call in (lambda: kernel.geglu(x), lambda: kernel.swiglu_packed(x), lambda: kernel.swiglu(x, x)):
        with pytest.raises(RuntimeError, match="must be on a CUDA device"):
            call()


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(kernel, dtype):
    draw = Draw(DEVICE, dtype)
    projected = draw(6, 5, 4 * 128)
    gate, up = projected[..., :128], projected[..., 128:256]
    assert_near(kernel.swiglu(gate, up), F.silu(gate.double()) * up.double())
    gate, up = projected[..., 1:129], projected[..., 130:258]  # at no whole access
    assert_near(kernel.swiglu(gate, up), F.silu(gate.double()) * up.double())
    for x in (
        projected[..., :256],
        projected[..., 3:259],
        projected.transpose(0, 1),
        draw(256, 7).t(),
        projected[0, 0],
    ):
        out = kernel.geglu(x)
        value, gate = x.double().chunk(2, -1)
        assert out.is_contiguous()
        assert_near(out, value * F.gelu(gate))


@needs_card
def test_large_gates(kernel):
    gate = torch.tensor([-300.0, -40.0, -13.0, -8.0, -0.0, 0.0, 8.0, 40.0, 300.0], device=DEVICE)
    value = torch.full_like(gate, 2.0)
    packed = torch.cat([value, gate])
    assert_near(kernel.geglu(packed), 2 * F.gelu(gate.double()))
    assert_near(kernel.geglu(packed, "tanh"), 2 * F.gelu(gate.double(), approximate="tanh"))
    assert_near(kernel.swiglu_packed(packed), 2 * F.silu(gate.double()))


class Act(torch.nn.Module):
    def forward(self, x):
        return F.silu(x[..., : x.shape[-1] // 2]) * x[..., x.shape[-1] // 2 :]


def references():
    def diffusers(name):
        return getattr(pytest.importorskip("diffusers.models.activations"), name)(64, 128)

    yield "GEGLU", lambda: diffusers("GEGLU")
    yield "SwiGLU", lambda: diffusers("SwiGLU")
    yield "SiluAndMul", Act

    def config(**more):
        return types.SimpleNamespace(hidden_size=64, intermediate_size=128, hidden_act="silu", **more)

    def qwen3():
        return pytest.importorskip("transformers.models.qwen3.modeling_qwen3").Qwen3MLP(config())

    def phi3():
        return pytest.importorskip("transformers.models.phi3.modeling_phi3").Phi3MLP(config())

    yield "SwiGLUMLP", qwen3
    yield "PackedSwiGLUMLP", phi3


@pytest.mark.parametrize("layer, make", list(references()))
def test_a_layer_stands_in_for_its_model_s(layer, make):
    validated(type(make()), layer)


@needs_card
@pytest.mark.parametrize("layer, make", list(references()))
def test_a_kernelized_module_computes_the_same(layer, make):
    module = make().to(DEVICE)
    x = Draw(DEVICE, torch.float32)(3, 5, 64)
    before = module(x)
    mine = kernelized(module, layer, Mode.TRAINING | Mode.TORCH_COMPILE)
    torch.testing.assert_close(mine(x), before)
    torch.testing.assert_close(torch.compile(mine, fullgraph=True)(x), before)
