"""The real sizes."""

import inspect

import pytest
import torch
from diffusers import LTXVideoTransformer3DModel
from ltx_video_kernels.configs import config


def test_2b_is_what_diffusers_defaults_to():
    defaults = inspect.signature(LTXVideoTransformer3DModel.__init__).parameters
    assert config("2b") == {name: p.default for name, p in defaults.items() if name != "self"}


@pytest.mark.parametrize("name, billions, width", [("2b", 1.92, 2048), ("13b", 13.0, 4096)])
def test_real_sizes(name, billions, width):
    with torch.device("meta"):
        model = LTXVideoTransformer3DModel(**config(name))
    assert model.proj_in.out_features == width
    assert sum(p.numel() for p in model.parameters()) / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize("small, large", [("smoke", "2b"), ("smoke-13b", "13b")])
def test_smoke_sizes_have_the_relations_of_the_real_ones(small, large):
    small, large = config(small), config(large)

    def width(sizes):
        return sizes["num_attention_heads"] * sizes["attention_head_dim"]

    for sizes in (small, large):
        assert sizes["cross_attention_dim"] == width(sizes)
    assert width(small) % 6 == width(large) % 6  # elements that are not rotated
    assert {**large, **small}.keys() == large.keys() == small.keys()


def test_no_such_size():
    with pytest.raises(ValueError, match="no size '3b': one of 2b, 13b, smoke, smoke-13b"):
        config("3b")
