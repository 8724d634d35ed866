"""What is @OP@'s own: layouts, and what is refused."""

import pytest
import torch
from cases_@OP@ import arguments, exact
from support import ANYWHERE, DEVICE, DTYPES, Draw, assert_near, needs_card, tensors


def call(kernel, @TENSORS@):
    return kernel.@OP@(@CALLED@)


@pytest.mark.parametrize("device", ANYWHERE)
def test_what_is_wrong_is_named(kernel, device):
    x = Draw(device, torch.float32)(4, 64)
    for given, message in [
        (arguments(x.double()), "@OP@: @FIRST@ must be float32, float16 or bfloat16, but is Double"),
        (arguments(x[0, 0]), "@OP@: @FIRST@ must have at least one dimension"),
        *((arguments(x) | {name: x[:2]}, f"@OP@: {name} must have @FIRST@'s shape") for name in (@OTHERS@)),
        *((arguments(x) | {name: x.half()}, f"@OP@: {name} must be of @FIRST@'s dtype") for name in (@OTHERS@)),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call(kernel, **given)


def test_tensors_on_no_card_are_named(kernel):
    with pytest.raises(RuntimeError, match="@OP@: @FIRST@ must be on a CUDA device"):
        call(kernel, **arguments(torch.ones(4, 64)))


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(kernel, dtype):
    wide = Draw(DEVICE, dtype)(6, 5, 1000)
    for x in (wide, wide[:, :, 3:500], wide[::2], wide.transpose(0, 1), wide[..., ::2], wide[0, 0], wide[:0]):
        given = arguments(x)
        right = exact(**{name: tensor.double() for name, tensor in given.items()})
        for one, other in zip(tensors(call(kernel, **given)), tensors(right)):
            assert_near(one, other)
