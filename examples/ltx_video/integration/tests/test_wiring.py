"""Each operation in its place: the whole model, block by block and over a loop, beside diffusers' own."""

import types

import pytest
import reference
import torch
from ltx_video_kernels import optimize
from support import CASES, VIDEO, arguments, assert_near, denoise, small, twin, video_coords

SIZES = ["smoke", "smoke-13b"]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_the_model(size, case):
    model = small(size)
    given = arguments(model, case)
    right = model(**given).sample
    assert_near(optimize(twin(model), kernel=reference)(**given).sample, right)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_loop(case):
    model = small()
    given = arguments(model, case)
    before = {name: t.clone() for name, t in given.items() if isinstance(t, torch.Tensor)}
    assert_near(denoise(optimize(twin(model), kernel=reference), given), denoise(model, given))
    for name, t in before.items():
        assert torch.equal(given[name], t), f"{name} was written to"


def test_float64():
    model = small(dtype=torch.float64)
    given = arguments(model)
    right = model(**given).sample
    # diffusers rotates in float32 whatever the model's dtype.
    assert_near(optimize(twin(model), kernel=reference)(**given).sample, right, 1e-6)


@pytest.mark.parametrize("per_token", [False, True], ids=["a timestep", "a timestep a token"])
@pytest.mark.parametrize("mask", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize("rotary", ["stock's cos and sin", "none"])
def test_a_block_alone(per_token, mask, rotary):
    model = small()
    width, tokens = model.proj_in.out_features, VIDEO[0] * VIDEO[1] * VIDEO[2]
    torch.manual_seed(2)
    hidden, text = torch.randn(2, tokens, width), torch.randn(2, 6, width)
    temb = torch.randn(2, tokens if per_token else 1, 6 * width)
    bias = torch.tensor([0, 0, 0, -10000.0, -10000.0, -10000.0]).expand(2, 1, 6) if mask else None
    emb = model.rope(hidden, *VIDEO) if rotary != "none" else None
    given = (hidden, text, temb, emb, bias)
    before = hidden.clone()
    ours = optimize(twin(model), kernel=reference)
    for one, other in zip(model.transformer_blocks, ours.transformer_blocks):
        assert_near(other(*given), one(*given))
        assert_near(other.attn2(hidden, text, bias), one.attn2(hidden, text, bias))
        assert torch.equal(hidden, before), "a block wrote to what its caller owns"


def test_block_by_block_in_the_model():
    model, seen = small(num_layers=3), {}
    ours = optimize(twin(model), kernel=reference)
    given = arguments(model)
    for name, which in (("stock", model), ("ours", ours)):
        outputs = seen[name] = []
        for block in which.transformer_blocks:
            block.register_forward_hook(lambda _, __, out, outputs=outputs: outputs.append(out))
        which(**given)
    assert len(seen["ours"]) == 3
    for one, other in zip(seen["ours"], seen["stock"]):
        assert_near(one, other)


def launched(model, given):
    """How often each function of the kernel was called."""
    counts = {}
    kernel = model._ltx_kernel
    for name, function in list(vars(kernel).items()):
        if isinstance(function, types.FunctionType):

            def counted(*arguments, name=name, function=function, **named):
                counts[name] = counts.get(name, 0) + 1
                return function(*arguments, **named)

            setattr(kernel, name, counted)
    model(**given)
    return counts


def test_launches():
    """The least that the blocks can do with: nothing is done twice, nothing in two where there is one."""
    ours = optimize(small(num_layers=3), kernel=reference)
    given = arguments(ours)
    counts = launched(ours, given)
    assert counts == {
        "rope3d_coords": 1,
        "rope3d_table": 1,
        "adaln": 1,
        "qk_norm_rope3d_": 3,
        "gate_residual": 1,
        "gate_residual_": 2,
        "rms_norm_": 6,
        "gate_residual_adaln_": 6,
    }
    again = launched(ours, given)
    assert "rope3d_table" not in again and again["qk_norm_rope3d_"] == 3


def wrong(name, change):
    """The reference with one function whose arguments are changed by a careless hand."""
    module = types.SimpleNamespace(**vars(reference))
    right = getattr(reference, name)
    setattr(module, name, lambda *arguments, **named: right(*change(list(arguments)), **named))
    return module


def swapped(first, second):
    def change(arguments):
        arguments[first], arguments[second] = arguments[second], arguments[first]
        return arguments

    return change


def replaced(index, by):
    def change(arguments):
        arguments[index] = by
        return arguments

    return change


WRONG = {
    "adaln: rows of the table": ("adaln", swapped(3, 4)),
    "adaln: scale and shift": ("adaln", swapped(1, 2)),
    "adaln: eps": ("adaln", replaced(7, 1e-6)),
    "adaln: norm": ("adaln", replaced(8, "layer")),
    "gate_residual: no table": ("gate_residual", replaced(3, None)),
    "gate_residual_: no gate": ("gate_residual_", lambda a: [a[0], a[1]]),
    "gate_residual_adaln_: rows of the table": ("gate_residual_adaln_", swapped(6, 7)),
    "gate_residual_adaln_: scale and shift": ("gate_residual_adaln_", swapped(3, 4)),
    "gate_residual_adaln_: no gate": ("gate_residual_adaln_", lambda a: [*a[:2], None, *a[3:5], None, *a[6:]]),
    "gate_residual_adaln_: eps": ("gate_residual_adaln_", replaced(10, 1e-6)),
    "gate_residual_adaln_: norm": ("gate_residual_adaln_", replaced(11, "rms")),
    "qk_norm_rope3d_: weights": ("qk_norm_rope3d_", swapped(2, 3)),
    "qk_norm_rope3d_: q and k": ("qk_norm_rope3d_", lambda a: [*swapped(0, 1)(a)]),
    "qk_norm_rope3d_: rows and columns": ("qk_norm_rope3d_", swapped(6, 7)),
    "qk_norm_rope3d_: eps": ("qk_norm_rope3d_", replaced(8, 1e-6)),
    "rms_norm_: weight": ("rms_norm_", replaced(1, None)),
    "rms_norm_: eps": ("rms_norm_", replaced(2, 1e-6)),
    "rope3d_coords: scale": ("rope3d_coords", replaced(3, (8 / 24, 32, 32))),
    "rope3d_table: theta": ("rope3d_table", replaced(2, 9000.0)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_shows(name):
    model = small(num_layers=2)
    given = arguments(model)
    right = model(**given).sample
    got = optimize(twin(model), kernel=wrong(*WRONG[name]))(**given).sample
    with pytest.raises(AssertionError):
        assert_near(got, right)


def test_coordinates_that_are_no_grid():
    """diffusers' own cos and sin, behind our norm."""
    model = small()
    given = arguments(model, next(case for case in CASES if case.name == "video_coords"))
    given["video_coords"][:, :, 7] += 0.3
    ours = optimize(twin(model), kernel=reference)
    assert_near(ours(**given).sample, model(**given).sample)
    counts = launched(ours, given)
    assert "rope3d_table" not in counts and counts["rms_norm_"] == 8


@pytest.mark.parametrize("kind", ["float64", "bfloat16", "int64"])
def test_coordinates_of_another_dtype(kind):
    model = small()
    given = arguments(model, next(case for case in CASES if case.name == "video_coords"))
    given["video_coords"] = (given["video_coords"] * 25).to(getattr(torch, kind))
    ours = optimize(twin(model), kernel=reference)
    assert_near(ours(**given).sample, model(**given).sample)


def test_coordinates_for_each_of_a_batch():
    model = small()
    given = arguments(model, next(case for case in CASES if case.name == "video_coords"))
    given["video_coords"][1, 0] *= 0.7
    assert_near(optimize(twin(model), kernel=reference)(**given).sample, model(**given).sample)


def test_coordinates_are_looked_at_once(monkeypatch):
    from ltx_video_kernels import rotary

    looks = []
    find = rotary.find_shape
    monkeypatch.setattr(rotary, "find_shape", lambda coords: looks.append(1) or find(coords))
    model = small()
    ours = optimize(twin(model), kernel=reference)
    given = arguments(model, next(case for case in CASES if case.name == "video_coords"))
    denoise(ours, given, steps=4)
    assert len(looks) == 1
    # Writing to the tables causes them to be checked again.
    given["video_coords"].mul_(0.5)
    assert_near(ours(**given).sample, model(**given).sample)
    assert len(looks) == 2
    given["video_coords"] = video_coords(*VIDEO, 2, rate=30.0)
    assert_near(ours(**given).sample, model(**given).sample)
    assert len(looks) == 3


def test_another_size_and_back():
    model = small()
    ours = optimize(twin(model), kernel=reference)
    for video in [VIDEO, (2, 5, 4), (1, 1, 1), (4, 2, 3), (5, 2, 3), (6, 2, 3), VIDEO]:
        given = arguments(model, video=video)
        assert_near(ours(**given).sample, model(**given).sample)


def test_under_inference_mode():
    model = small()
    ours = optimize(twin(model), kernel=reference)
    with torch.inference_mode():
        for case in CASES:
            given = arguments(model, case)
            assert_near(ours(**given).sample, model(**given).sample)
    given = arguments(model)
    assert_near(ours(**given).sample, model(**given).sample)
