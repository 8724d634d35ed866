"""What is the family layer_norm_gelu's own: layouts, what is refused, its layers."""

import pytest
import torch
from cases_layer_norm_gelu import formula
from kernels import Mode
from support import ANYWHERE, DEVICE, DTYPES, Draw, assert_near, kernelized, needs_card, validated


class LayerNormGelu(torch.nn.LayerNorm):
    """What the layer stands in for."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return formula(input, self.weight, self.bias, self.eps)


class LayerNormGeluTanh(torch.nn.LayerNorm):
    """What the layer with tanh stands in for."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return formula(input, self.weight, self.bias, self.eps, "tanh")


@pytest.mark.parametrize("device", ANYWHERE)
def test_what_is_wrong_is_named(kernel, device):
    x = Draw(device, torch.float32)(4, 64)
    for call, message in [
        (lambda: kernel.layer_norm_gelu(x.double()), r"x must be float32, float16 or bfloat16, but is Double"),
        (lambda: kernel.layer_norm_gelu(x[0, 0]), r"x must have at least one dimension"),
        (lambda: kernel.layer_norm_gelu(x, x[0, :63]), r"weight must be \[64\] with stride 1"),
        (lambda: kernel.layer_norm_gelu(x, None, x[0].half()), r"bias must be of x's dtype, but is Half"),
    ]:
        with pytest.raises(RuntimeError, match=f"layer_norm_gelu: {message}"):
            call()
    with pytest.raises(ValueError, match="layer_norm_gelu: approximate must be"):
        kernel.layer_norm_gelu(x, approximate="erf")


def test_tensors_on_no_card_are_named(kernel):
    with pytest.raises(RuntimeError, match="layer_norm_gelu: x must be on a CUDA device"):
        kernel.layer_norm_gelu(torch.ones(4, 64))


def test_a_gradient_is_refused(kernel):
    with pytest.raises(RuntimeError, match="layer_norm_gelu has no gradient"):
        kernel.layer_norm_gelu(torch.ones(4, 64, requires_grad=True))


@needs_card
def test_other_wrong_arguments(kernel):
    x = Draw(DEVICE, torch.bfloat16)(4, 64)
    for eps in (-1.0, float("nan"), float("inf")):
        with pytest.raises(RuntimeError, match="layer_norm_gelu: eps must be finite and not negative"):
            kernel.layer_norm_gelu(x, eps=eps)


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(kernel, dtype):
    wide = Draw(DEVICE, dtype)(6, 5, 1000)
    for x in (wide, wide[:, :, 3:500], wide[::2], wide.transpose(0, 1), wide[..., ::2], wide[0, 0], wide[:0]):
        assert_near(kernel.layer_norm_gelu(x), formula(x.double()))


@needs_card
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_what_is_no_number_stays_so(kernel, approximate):
    x = Draw(DEVICE, torch.float32)(3, 768)
    x[1, 5] = float("nan")
    out = kernel.layer_norm_gelu(x, approximate=approximate)
    assert out[1].isnan().all() and not out[0].isnan().any() and not out[2].isnan().any()


@pytest.mark.parametrize("reference", [LayerNormGelu, LayerNormGeluTanh])
def test_the_layer_may_stand_in(kernel, reference):
    validated(reference, reference.__name__)


@needs_card
@pytest.mark.parametrize("reference", [LayerNormGelu, LayerNormGeluTanh])
@pytest.mark.parametrize("mode", [Mode.INFERENCE, Mode.INFERENCE | Mode.TORCH_COMPILE], ids=str)
def test_the_layer_is_the_module(kernel, mode, reference):
    module = kernelized(reference(128, device=DEVICE, dtype=torch.bfloat16), reference.__name__, mode)
    x = Draw(DEVICE, torch.bfloat16)(16, 128)
    with torch.no_grad():
        approximate = "tanh" if reference is LayerNormGeluTanh else "none"
        assert_near(module(x), formula(x.double(), eps=module.eps, approximate=approximate))
