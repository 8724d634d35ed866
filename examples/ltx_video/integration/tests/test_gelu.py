"""The feed-forward with the gelu in its first GEMM. Without a card aten's op applies the exact gelu, which is near
enough to show what is wired how."""

import pytest
import reference
import torch
from ltx_video_kernels import gelu, optimize
from support import arguments, assert_near, small, twin
from test_hooks import wrap

NEAR = 2e-2  # bfloat16, and one gelu for the other


@pytest.fixture
def anywhere(monkeypatch):
    """Lets it run here, and counts its calls."""
    calls, real = [], torch._addmm_activation
    monkeypatch.setattr(gelu, "DEVICES", ("cpu", "cuda"))
    monkeypatch.setattr(torch, "_addmm_activation", lambda *a, **k: calls.append(1) or real(*a, **k))
    return calls


def test_it_is_fused(anywhere):
    model = small(dtype=torch.bfloat16)
    given = arguments(model)
    right = model(**given).sample
    assert_near(optimize(twin(model), kernel=reference)(**given).sample, right, NEAR)
    assert len(anywhere) == 2
    assert_near(optimize(twin(model), kernel=reference, fuse_gelu=False)(**given).sample, right, NEAR)
    assert len(anywhere) == 2


def test_it_is_fused_in_one_graph():
    model = small(dtype=torch.bfloat16)
    given = arguments(model)
    found = []

    def look(graph, inputs):
        found.extend(node for node in graph.graph.nodes if "linear_gelu" in str(node.target))
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    right = model(**given).sample
    ours = optimize(twin(model), kernel=reference)
    former, gelu.DEVICES = gelu.DEVICES, ("cpu",)
    try:
        assert_near(torch.compile(ours, backend=look, fullgraph=True)(**given).sample, right, NEAR)
    finally:
        gelu.DEVICES = former
    assert len(found) == 2


def exact_gelu(model):
    for block in model.transformer_blocks:
        block.ff.net[0].approximate = "none"


def without_bias(model):
    for block in model.transformer_blocks:
        block.ff.net[0].proj.bias = None


def followed(model):
    for block in model.transformer_blocks:
        block.ff.net[0].proj.register_forward_hook(lambda *_: None)


def widened(model):
    model.float()


def subclassed(model):
    for block in model.transformer_blocks:
        block.ff.net[0].proj.__class__ = type("Quantised", (torch.nn.Linear,), {})


@pytest.mark.parametrize("change", [wrap, exact_gelu, without_bias, followed, widened, subclassed])
def test_where_it_is_not(anywhere, change):
    model = small(dtype=torch.bfloat16)
    change(model)
    if change is wrap:
        model.to(torch.bfloat16)
    given = arguments(model)
    ours = optimize(twin(model), kernel=reference)
    assert_near(ours(**given).sample, model(**given).sample, NEAR)
    assert not anywhere
