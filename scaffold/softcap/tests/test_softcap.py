"""What is the family softcap's own: layouts, what is refused, its layer."""

import pytest
import torch
from cases_softcap import capped
from kernels import Mode
from support import ANYWHERE, DEVICE, DTYPES, Draw, assert_near, kernelized, needs_card, validated


class Softcap(torch.nn.Module):
    """What the layer stands in for."""

    def __init__(self, cap: float):
        super().__init__()
        self.cap = cap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return capped(x, self.cap)


@pytest.mark.parametrize("device", ANYWHERE)
def test_what_is_wrong_is_named(kernel, device):
    x = Draw(device, torch.float32)(4, 64)
    for call, message in [
        (lambda: kernel.softcap(x.double(), 1.0), r"softcap: x must be float32, float16 or bfloat16, but is Double"),
        (lambda: kernel.softcap(x[0, 0], 1.0), r"softcap: x must have at least one dimension"),
        (lambda: kernel.softcap_(x.t(), 1.0), r"softcap_: x must have rows .* \[64, 4\] with strides \[1, 64\]"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call()


def test_tensors_on_no_card_are_named(kernel):
    with pytest.raises(RuntimeError, match="softcap: x must be on a CUDA device"):
        kernel.softcap(torch.ones(4, 64), 1.0)


def test_an_op_in_place_refuses_a_gradient(kernel):
    with pytest.raises(RuntimeError, match="softcap_ works in place and has no gradient"):
        kernel.softcap_(torch.ones(4, 64, requires_grad=True), 1.0)


@needs_card
def test_other_wrong_arguments(kernel):
    x = Draw(DEVICE, torch.bfloat16)(4, 64)
    for cap in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(RuntimeError, match="softcap: cap must be finite and above 0"):
            kernel.softcap(x, cap)


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(kernel, dtype):
    wide = Draw(DEVICE, dtype)(6, 5, 1000)
    for x in (wide, wide[:, :, 3:500], wide[::2], wide.transpose(0, 1), wide[..., ::2], wide[0, 0], wide[:0]):
        assert_near(kernel.softcap(x, 3.0), capped(x.double(), 3.0))


@needs_card
def test_in_place_writes_its_rows_and_nothing_between_them(kernel):
    whole = Draw(DEVICE, torch.float32)(8, 100)
    before = whole.clone()
    rows = whole[:, 10:74]
    assert kernel.softcap_(rows, 1.0) is rows
    assert_near(rows, capped(before[:, 10:74].double(), 1.0))
    assert torch.equal(whole[:, :10], before[:, :10]) and torch.equal(whole[:, 74:], before[:, 74:])


@needs_card
def test_autograd_knows_what_was_written(kernel):
    x = Draw(DEVICE, torch.float32)(4, 64)
    kernel.softcap_(x, 1.0)
    assert x._version == 1


@needs_card
def test_a_gradient_of_a_gradient_is_right(kernel):
    x = Draw(DEVICE, torch.float32)(4, 64).requires_grad_()
    wide = x.detach().double().requires_grad_()
    second = []
    for leaf, out in ((x, kernel.softcap(x, 2.0)), (wide, capped(wide, 2.0))):
        (first,) = torch.autograd.grad(out.square().sum(), leaf, create_graph=True)
        second.append(torch.autograd.grad(first.square().sum(), leaf)[0])
    assert_near(second[0], second[1], 4, cancels=True)


def test_the_layer_may_stand_in(kernel):
    validated(Softcap, "Softcap")


@needs_card
@pytest.mark.parametrize("mode", [Mode.INFERENCE, Mode.TRAINING, Mode.TRAINING | Mode.TORCH_COMPILE], ids=str)
def test_the_layer_is_the_module(kernel, mode):
    module = kernelized(Softcap(5.0), "Softcap", mode)
    x = Draw(DEVICE, torch.bfloat16)(16, 128)
    assert_near(module(x), capped(x.double(), 5.0))
