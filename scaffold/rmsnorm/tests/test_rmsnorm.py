"""What is the family rmsnorm's own: layouts, what is refused, layers."""

import pytest
import torch
from cases_rmsnorm import norm
from kernels import Mode
from support import ANYWHERE, DEVICE, DTYPES, Draw, assert_near, kernelized, needs_card, validated


@pytest.mark.parametrize("device", ANYWHERE)
def test_what_is_wrong_is_named(kernel, device):
    draw = Draw(device, torch.float32)
    x, weight = draw(4, 64), draw(64)
    for call, message in [
        (lambda: kernel.rms_norm(x.double()), r"rms_norm: x must be float32, float16 or bfloat16, but is Double"),
        (lambda: kernel.rms_norm(x.long()), r"rms_norm: x must be float32, float16 or bfloat16, but is Long"),
        (lambda: kernel.rms_norm(x, weight.half()), r"rms_norm: weight must be of x's dtype, but is Half"),
        (lambda: kernel.rms_norm(x, weight[1:]), r"rms_norm: weight must be \[64\] with stride 1, but is \[63\]"),
        (lambda: kernel.rms_norm(x, weight[None]), r"rms_norm: weight must be \[64\] .* but is \[1, 64\]"),
        (
            lambda: kernel.rms_norm(x, draw(128)[::2]),
            r"rms_norm: weight must be \[64\] with stride 1, .* strides \[2\]",
        ),
        (lambda: kernel.rms_norm(x[0, 0]), r"rms_norm: x must have at least one dimension"),
        (
            lambda: kernel.rms_norm_(x.t()),
            r"rms_norm_: x must have rows .* \[64, 4\] with strides \[1, 64\]; use the op",
        ),
        (lambda: kernel.rms_norm_(x[:1].expand(4, 64)), r"rms_norm_: x must have rows .* with strides \[0, 1\]"),
        (lambda: kernel.add_rms_norm(x, x[:3]), r"add_rms_norm: residual must have x's shape, \[4, 64\] .* \[3, 64\]"),
        (lambda: kernel.add_rms_norm(x, x.half()), r"add_rms_norm: residual must be of x's dtype, but is Half"),
        (lambda: kernel.add_rms_norm_(x, x), "add_rms_norm_: the elements of x and residual overlap"),
        (lambda: kernel.add_rms_norm_(x[:, 1:], x[:, :-1]), "the elements of x and residual overlap"),
        (lambda: kernel.add_rms_norm_(x[1:], x[:3]), "the elements of x and residual overlap"),
        (lambda: kernel.add_rms_norm_(x[::2], x[1:3]), "the elements of x and residual overlap"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call()


def test_tensors_on_no_card_are_named(kernel):
    with pytest.raises(RuntimeError, match="rms_norm: x must be on a CUDA device"):
        kernel.rms_norm(torch.ones(4, 64))


def test_slices_of_one_tensor_overlap_nowhere(kernel):
    """They pass that check, and are refused for the next reason."""
    x = torch.ones(8, 64)
    for one, other in [
        (x[:, :32], x[:, 32:]),
        (x[::2], x[1::2]),
        (x[4:], x[:4]),
        (x[:4, :32], x[::2, 32:]),
        (x[:0], x[:0]),
        (x[:, :0], x[:, :0]),
    ]:
        for a, b in ((one, other), (other, one)):
            with pytest.raises(RuntimeError, match="add_rms_norm_: x must be on a CUDA device"):
                kernel.add_rms_norm_(a, b)


def test_an_op_in_place_refuses_a_gradient(kernel):
    x = torch.ones(4, 64, requires_grad=True)
    with pytest.raises(RuntimeError, match="rms_norm_ works in place and has no gradient"):
        kernel.rms_norm_(x)
    with pytest.raises(RuntimeError, match="add_rms_norm_ works in place and has no gradient"):
        kernel.add_rms_norm_(torch.ones(4, 64), x)


@needs_card
def test_other_wrong_arguments(kernel):
    x = Draw(DEVICE, torch.bfloat16)(4, 64)
    with pytest.raises(RuntimeError, match="rms_norm: weight must be on x's device"):
        kernel.rms_norm(x, torch.ones(64, dtype=torch.bfloat16))
    for eps in (-1.0, float("nan"), float("inf")):
        with pytest.raises(RuntimeError, match="rms_norm: eps must be finite and not negative"):
            kernel.rms_norm(x, None, eps)


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(kernel, dtype):
    draw = Draw(DEVICE, dtype)
    weight = draw(256)
    wide = draw(6, 5, 1000)
    for x in (
        wide[..., :256],  # rows with gaps
        wide[..., 3:259],  # that begin at no whole access
        wide[:, 2, 8:264],
        wide[0, 0, :256],  # one row
        draw(256, 7).t(),  # no rows: copied
        draw(5, 6, 256).transpose(0, 1),  # rows at no one distance: copied
        draw(1, 256).expand(9, 256),
        draw(3, 1, 256)[:, :, :],
    ):
        out = kernel.rms_norm(x, weight)
        assert out.is_contiguous()
        assert_near(out, norm(x.double(), weight.double(), 1e-6))
    gaps = draw(8, 300)
    before, kept = gaps.clone(), gaps[:, :256].double()
    kernel.rms_norm_(gaps[:, :256], weight)
    assert_near(gaps[:, :256], norm(kept, weight.double(), 1e-6))
    assert torch.equal(gaps[:, 256:], before[:, 256:])


@needs_card
def test_one_gradient_of_two_calls(kernel):
    """What is saved for the backward is not what a later call wrote."""
    draw = Draw(DEVICE, torch.float32)
    x, weight = draw(8, 128).requires_grad_(), draw(128).requires_grad_()
    y = kernel.rms_norm(kernel.rms_norm(x, weight), weight)
    actual = torch.autograd.grad(y.sum(), (x, weight))
    a, b = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    right = torch.autograd.grad(norm(norm(a, b, 1e-6), b, 1e-6).sum(), (a, b))
    for one, other in zip(actual, right):
        assert_near(one, other, 2)


@needs_card
def test_many_rows(kernel):
    x = torch.randn(70_000, 33, device=DEVICE, dtype=torch.float16)
    assert_near(kernel.rms_norm(x), norm(x.double(), None, 1e-6))


def references():
    yield "RMSNorm", lambda: torch.nn.RMSNorm(64, eps=1e-5)
    yield "RMSNorm", lambda: torch.nn.RMSNorm(64)
    yield "RMSNorm", lambda: torch.nn.RMSNorm((4, 16), eps=1e-6)
    yield "RMSNorm", lambda: torch.nn.RMSNorm(64, eps=1e-6, elementwise_affine=False)

    def diffusers(**options):
        normalization = pytest.importorskip("diffusers.models.normalization")
        return normalization.RMSNorm(64, eps=1e-6, **options)

    yield "DiffusersRMSNorm", lambda: diffusers(elementwise_affine=False)
    yield "DiffusersRMSNorm", lambda: diffusers()
    yield "DiffusersRMSNorm", lambda: diffusers(bias=True)

    def qwen3():
        return pytest.importorskip("transformers.models.qwen3.modeling_qwen3").Qwen3RMSNorm(64)

    yield "TransformersRMSNorm", qwen3

    def gemma():
        return pytest.importorskip("transformers.models.gemma.modeling_gemma").GemmaRMSNorm(64)

    yield "GemmaRMSNorm", gemma


@pytest.mark.parametrize("layer, make", list(references()))
def test_a_layer_stands_in_for_its_model_s(layer, make):
    validated(type(make()), layer)


def drawn(make, device, dtype):
    """A module with weights that hide nothing, and inputs: normal numbers, and some so small that eps shows."""
    module = make().to(device, dtype)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    shape = (4, 16) if getattr(module, "normalized_shape", None) == (4, 16) else (64,)
    x = Draw(device, dtype)(3, 5, *shape)
    return module, (x, x * 0.01)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layer, make", list(references()))
def test_a_layer_asks_for_what_its_module_computes(kernel, monkeypatch, layer, make, dtype):
    """Without a card: the formula stands in for the op."""

    def formula(x, weight, eps, offset=0.0, round_first=False):
        weight = None if weight is None else weight.double()
        return norm(x.double(), weight, eps, offset, dtype if round_first else None).to(dtype)

    forward = getattr(kernel.layers, layer).forward
    monkeypatch.setitem(forward.__globals__, "rms_norm", formula)
    module, inputs = drawn(make, "cpu", dtype)
    with torch.no_grad():
        for x in inputs:
            # A bias may cancel what was rounded in front of it.
            assert_near(forward(module, x), module(x).double(), 4, cancels=True)


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layer, make", list(references()))
def test_a_kernelized_module_computes_the_same(layer, make, dtype):
    module, inputs = drawn(make, DEVICE, dtype)
    before = [module(x) for x in inputs]
    biased = getattr(module, "bias", None) is not None  # it may cancel what was rounded in front of it
    mine = kernelized(module, layer, Mode.TRAINING | Mode.TORCH_COMPILE)
    compiled = torch.compile(mine, fullgraph=True)
    for x, right in zip(inputs, before):
        assert_near(mine(x), right.double(), 3, cancels=biased)
        assert_near(compiled(x), right.double(), 3, cancels=biased)


@needs_card
def test_autograd_knows_what_was_written(kernel):
    draw = Draw(DEVICE, torch.float32)
    # [of add_rms_norm]
    x, residual = draw(4, 64), draw(4, 64)
    # [else]
    x = draw(4, 64)
    # [end of]
    kernel.rms_norm_(x)
    # [of add_rms_norm]
    kernel.add_rms_norm_(x, residual)
    assert (x._version, residual._version) == (2, 1)
    # [else]
    assert x._version == 1
    # [end of]
    weight = draw(64).requires_grad_()
    y = (x * weight).sum()  # keeps x
    kernel.rms_norm_(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@needs_card
def test_a_gradient_of_a_gradient_is_refused(kernel):
    x = Draw(DEVICE, torch.float32)(4, 64).requires_grad_()
    (dx,) = torch.autograd.grad(kernel.rms_norm(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()
