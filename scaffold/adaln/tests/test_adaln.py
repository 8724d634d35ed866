"""What is the family adaln's own: shapes of modulations, layouts, what is refused, layers."""

import copy

import pytest
import torch
from cases_adaln import modulate, normed
from kernels import Mode
from support import ANYWHERE, DEVICE, DTYPES, Draw, assert_near, kernelized, needs_card, validated


@pytest.mark.parametrize("device", ANYWHERE)
def test_what_is_wrong_is_named(kernel, device):
    draw = Draw(device, torch.float16)
    x, row = draw(2, 6, 64), draw(64)
    # [of adaln gate_residual]
    adaln, gated = kernel.adaln, kernel.gate_residual
    # [else]
    # [of adaln]
    adaln = kernel.adaln
    # [end of]
    # [of gate_residual]
    gated = kernel.gate_residual
    # [end of]
    # [end of]
    for call, message in [
        (lambda: kernel.layer_norm(x.double()), "layer_norm: x must be float32, float16 or bfloat16, but is Double"),
        (lambda: kernel.layer_norm(x, row, row[1:]), r"layer_norm: bias must be \[64\] with stride 1, but is \[63\]"),
        (
            lambda: adaln(x, draw(2, 5, 64)),
            r"adaln: scale must have the dimensions of x up to some one, then 1, and its",
        ),
        (lambda: adaln(x, draw(3, 1, 64)), r"x is \[2, 6, 64\] .* scale is \[3, 1, 64\]"),
        (lambda: adaln(x, draw(1, 6, 64)), r"adaln: scale must have the dimensions of x"),
        (lambda: adaln(x, draw(2, 1, 63)), r"adaln: scale must have the dimensions of x"),
        (
            lambda: adaln(x, draw(2, 64), draw(2, 6, 64)),
            "shift must have a row for as many rows of x as scale, 6, .* for 1",
        ),
        (lambda: adaln(x, draw(2, 64).float()), "adaln: scale must be of x's dtype, but is Float"),
        (lambda: adaln(x, scale_table=row), "adaln: scale_table is added to scale, which is not there"),
        # [of gate_residual]
        (lambda: gated(x, x, gate_table=row), "gate_residual: gate_table is added to gate, which is not there"),
        (lambda: gated(x, x[:, :5]), r"gate_residual: x must have h's shape, \[2, 6, 64\]"),
        # [end of]
        (lambda: kernel.gate_residual_(x.transpose(0, 1), x.transpose(0, 1)), "gate_residual_: h must have rows"),
        (
            lambda: kernel.gate_residual_adaln(x, x, draw(2, 64), draw(64)),
            "scale must have a row for as many rows of h as gate",
        ),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(ValueError, match='adaln: norm must be "rms" or "layer", but is \'batch\''):
        adaln(x, norm="batch")


def test_tensors_on_no_card_are_named(kernel):
    x = torch.ones(4, 64)
    for call in (lambda: kernel.layer_norm(x), lambda: kernel.adaln(x), lambda: kernel.gate_residual(x, x)):
        with pytest.raises(RuntimeError, match="must be on a CUDA device"):
            call()


def test_what_has_no_gradient_says_so(kernel):
    x = torch.ones(4, 64, requires_grad=True)
    for call in (
        lambda: kernel.layer_norm(x),
        lambda: kernel.adaln(x),
        lambda: kernel.gate_residual(x, x),
        lambda: kernel.gate_residual_(x, x),
        lambda: kernel.gate_residual_adaln(x, x),
        lambda: kernel.gate_residual_adaln_(x, x),
    ):
        with pytest.raises(RuntimeError, match="has no gradient; call it under torch.no_grad"):
            call()


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_modulations_of_every_shape(kernel, dtype):
    draw = Draw(DEVICE, dtype)
    x = draw(2, 3, 4, 128)
    for shape in ((2, 3, 4), (2, 3, 1), (2, 3), (2, 1, 1), (2, 1), (2,), (1, 1, 1), (1,), ()):
        scale, shift = draw(*shape, 128), draw(*shape, 128)
        whole = [m.double().reshape(*shape, *[1] * (3 - len(shape)), 128) for m in (scale, shift)]
        assert_near(kernel.adaln(x, scale, shift), modulate(x.double(), *whole))
        right = x.double() + x.double() * whole[0]
        assert_near(kernel.gate_residual(x, x, scale), right, cancels=True)
    one = draw(1, 128).expand(2, 128)  # rows at no distance: copied
    assert_near(kernel.adaln(x, one), normed(x.double()) * (1 + one.double()[:, None, None]))


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(kernel, dtype):
    draw = Draw(DEVICE, dtype)
    wide, scale = draw(6, 5, 700), draw(6, 1, 3 * 128)
    for x in (wide[..., :128], wide[..., 3:131], draw(6, 128, 5).transpose(1, 2), draw(5, 6, 128).transpose(0, 1)):
        for modulation in (scale[..., 128:256], scale[..., 1:129]):
            out = kernel.adaln(x, modulation, modulation)
            assert out.is_contiguous()
            assert_near(out, modulate(x.double(), modulation.double(), modulation.double()))
    before = wide.clone()
    kernel.gate_residual_(wide[..., :128], wide[..., 128:256], scale[..., :128])
    right = before[..., :128].double() + before[..., 128:256].double() * scale[..., :128].double()
    assert_near(wide[..., :128], right, cancels=True)
    assert torch.equal(wide[..., 128:], before[..., 128:])


def ltx_block():
    ltx = pytest.importorskip("diffusers.models.transformers.transformer_ltx")
    return ltx.LTXVideoTransformerBlock(64, 2, 32, 64)


def test_layer_norm_stands_in_for_torch_s():
    validated(torch.nn.LayerNorm, "LayerNorm")


def test_a_block_stands_in_for_ltx_video_s():
    validated(type(ltx_block()), "LTXVideoTransformerBlock")


LAYER_NORMS = [
    (96, {}),
    (96, {"bias": False}),
    (96, {"elementwise_affine": False}),
    ((4, 24), {}),
    ((4, 24), {"elementwise_affine": False}),
    ((2, 3, 16), {"bias": False}),
]


def layer_norm_of(shape, options, device):
    module = torch.nn.LayerNorm(shape, **options).to(device)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module, Draw(device, torch.float32)(3, 5, *module.normalized_shape)


@pytest.mark.parametrize("shape, options", LAYER_NORMS)
def test_a_layer_asks_for_what_layer_norm_computes(kernel, monkeypatch, shape, options):
    """Without a card: the formula stands in for the op."""

    def formula(x, weight, bias, eps):
        return normed(x, weight, bias, eps, layer=True)

    forward = kernel.layers.LayerNorm.forward
    monkeypatch.setitem(forward.__globals__, "layer_norm", formula)
    module, x = layer_norm_of(shape, options, "cpu")
    with torch.no_grad():
        torch.testing.assert_close(forward(module, x), module(x))


@needs_card
@pytest.mark.parametrize("shape, options", LAYER_NORMS)
def test_a_kernelized_layer_norm_computes_the_same(shape, options):
    module, x = layer_norm_of(shape, options, DEVICE)
    with torch.no_grad():
        before = module(x)
        mine = kernelized(module, "LayerNorm", Mode.INFERENCE | Mode.TORCH_COMPILE)
        torch.testing.assert_close(mine(x), before)
        torch.testing.assert_close(torch.compile(mine, fullgraph=True)(x), before)


@needs_card
@pytest.mark.parametrize("steps", [1, 10])
def test_a_kernelized_block_of_ltx_video_computes_the_same(steps):
    torch.manual_seed(0)
    block = ltx_block().to(DEVICE)
    draw = Draw(DEVICE, torch.float32)
    arguments = draw(2, 10, 64), draw(2, 7, 64), draw(2, steps, 6 * 64)
    with torch.no_grad():
        before = block(*arguments)
        mine = kernelized(copy.deepcopy(block), "LTXVideoTransformerBlock", Mode.INFERENCE | Mode.TORCH_COMPILE)
        torch.testing.assert_close(mine(*arguments), before, rtol=1e-4, atol=1e-4)


@needs_card
def test_autograd_knows_what_was_written(kernel):
    draw = Draw(DEVICE, torch.float32)
    h, x = draw(4, 64), draw(4, 64)
    kernel.gate_residual_(h, x)
    kernel.gate_residual_adaln_(h, x)
    assert (h._version, x._version) == (2, 0)
