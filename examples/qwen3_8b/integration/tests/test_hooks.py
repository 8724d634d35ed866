"""Hooks: accelerate's, that move tensors between devices and bring offloaded weights in, whoever comes first; and those
of one's own, that must see what they see in the stock model."""

import types

import pytest
import reference
import torch
from qwen3_kernels import is_optimized, optimize, restore
from support import CALLS, FAMILIES, counting, model, tokens, twin

accelerate = pytest.importorskip("accelerate")
from accelerate.hooks import AlignDevicesHook, ModelHook, add_hook_to_module, remove_hook_from_module  # noqa: E402


def logits(one):
    with torch.no_grad():
        return one(tokens()).logits


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_offloaded_before(family):
    stock = model(family)
    ours = accelerate.cpu_offload(twin(stock), execution_device=torch.device("cpu"))
    assert ours.model.norm.weight.device.type == "meta"
    kernel = counting(reference)
    optimize(ours, kernel=kernel)
    close(logits(ours), logits(stock))
    assert kernel.calls["add_rms_norm"] == 6
    assert ours.model.norm.weight.device.type == "meta"
    restore(ours)
    kernel.calls.clear()
    close(logits(ours), logits(stock))
    assert not kernel.calls


@pytest.mark.parametrize("family", FAMILIES)
def test_offloaded_afterwards(family):
    stock = model(family)
    kernel = counting(reference)
    ours = accelerate.cpu_offload(optimize(twin(stock), kernel=kernel), execution_device=torch.device("cpu"))
    close(logits(ours), logits(stock))
    assert kernel.calls["add_rms_norm"] == 6
    restore(ours)
    kernel.calls.clear()
    close(logits(ours), logits(stock))
    assert not kernel.calls


def test_hooks_on_the_layers_as_device_map_has_them():
    stock = model()
    ours = twin(stock)
    for layer in (*ours.model.layers, ours.model.norm):
        add_hook_to_module(layer, AlignDevicesHook(execution_device="cpu", io_same_device=True))
    before = [layer.forward for layer in ours.model.layers]
    kernel = counting(reference)
    optimize(ours, kernel=kernel)
    assert before == [layer.forward for layer in ours.model.layers]  # the hooks' own, untouched
    close(logits(ours), logits(stock))
    # Hooks on a layer do not move its norms' weights.
    assert kernel.calls["add_rms_norm"] == 6 and kernel.calls["qk_norm_rope"] == 3


def test_hooks_removed_in_between():
    stock = model()
    ours = twin(stock)
    for layer in ours.model.layers:
        add_hook_to_module(layer, AlignDevicesHook(execution_device="cpu"))
        add_hook_to_module(layer.self_attn.q_norm, AlignDevicesHook(execution_device="cpu"))
    kernel = counting(reference)
    optimize(ours, kernel=kernel)
    remove_hook_from_module(ours, recurse=True)
    close(logits(ours), logits(stock))
    assert dict(kernel.calls) == CALLS["qwen3"]
    restore(ours)
    assert not is_optimized(ours)
    assert torch.equal(logits(ours), logits(stock))
    optimize(ours, kernel=reference)
    close(logits(ours), logits(stock))


PLACES = [
    *(("qwen3", place) for place in ("norm", "layers.0", "layers.1", "layers.0.input_layernorm")),
    *(("qwen3", f"layers.1.{place}") for place in ("input_layernorm", "post_attention_layernorm", "mlp.act_fn")),
    *(("qwen3", f"layers.1.self_attn.{place}") for place in ("q_norm", "k_norm")),
    *(("gemma2", place) for place in ("norm", "layers.1")),
    *(("gemma2", f"layers.1.{place}_layernorm") for place in ("input", "post_attention")),
    *(("gemma2", f"layers.1.{place}_feedforward_layernorm") for place in ("pre", "post")),
]
KINDS = ("forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family, place", PLACES)
def test_a_hook_of_ones_own_sees_what_it_sees_in_the_stock_model(family, place, kind):
    stock = model(family)
    ours = optimize(twin(stock), kernel=reference)
    seen = {}
    for one in (ours, stock):
        seen[one] = []

        def hook(module, *given, kept=seen[one]):
            kept.extend(x.detach().clone() for x in torch.utils._pytree.tree_leaves(given))

        getattr(one.model.get_submodule(place), f"register_{kind}")(hook)
        with torch.set_grad_enabled("backward" in kind):
            loss = one(tokens()).logits.square().mean()
        if "backward" in kind:
            loss.backward()
    assert len(seen[ours]) == len(seen[stock]) > 0
    for mine, theirs in zip(seen[ours], seen[stock]):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family, place", PLACES)
def test_a_hook_of_ones_own_changes_what_it_changes_in_the_stock_model(family, place):
    stock = model(family)
    ours = optimize(twin(stock), kernel=reference)
    before = logits(ours)
    for one in (ours, stock):
        one.model.get_submodule(place).register_forward_pre_hook(lambda m, given: (given[0] * 2 + 0.5, *given[1:]))
    assert not torch.allclose(logits(stock), before, atol=1e-3)
    close(logits(ours), logits(stock))


@pytest.mark.parametrize("family, place", PLACES)
def test_a_forward_that_somebody_replaced_is_called_as_in_the_stock_model(family, place):
    stock = model(family)
    ours = optimize(twin(stock), kernel=reference)
    before = logits(ours)
    for one in (ours, stock):
        module = one.model.get_submodule(place)
        by = type(stock.model.get_submodule(place)).forward
        if type(stock.model.get_submodule(place)) is type(stock.model.layers[0]):
            by = type(module).forward  # a layer's own, which calls its modules

        def forward(self, hidden_states, *args, by=by, **kwargs):
            assert isinstance(hidden_states, torch.Tensor)
            return by(self, hidden_states * 2 + 0.5, *args, **kwargs)

        module.forward = types.MethodType(forward, module)
    assert not torch.allclose(logits(stock), before, atol=1e-3)
    close(logits(ours), logits(stock))


@pytest.mark.parametrize(
    "place, additions",
    [("norm", 5), ("layers.0", 5), ("layers.1", 4), ("layers.1.input_layernorm", 4), ("layers.1.mlp", 6)],
)
def test_what_a_hook_costs(place, additions):
    """The additions on both sides of it are made apart, and the others are not; without it, none."""
    kernel = counting(reference)
    ours = optimize(model(), kernel=kernel)
    hook = ours.model.get_submodule(place).register_forward_pre_hook(lambda *_: None)
    logits(ours)
    assert kernel.calls["add_rms_norm"] == additions
    hook.remove()
    kernel.calls.clear()
    logits(ours)
    assert dict(kernel.calls) == CALLS["qwen3"]


def test_fewer_layers_than_there_are():
    """The stock forward leaves out those behind config.num_hidden_layers: the norm comes behind another one."""
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    seen = []
    for one in (ours, stock):
        one.config.num_hidden_layers = one.model.config.num_hidden_layers = 2
        one.model.norm.register_forward_pre_hook(lambda m, given: seen.append(given[0].clone()))
        logits(one)
    close(*seen)


@pytest.mark.parametrize("append", [False, True])
def test_a_hook_derived_from_accelerates_sees_tensors(append):
    class Keeps(ModelHook):
        def __init__(self):
            self.kept = []

        def pre_forward(self, module, *args, **kwargs):
            self.kept += args
            return args, kwargs

    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    hooks = Keeps(), Keeps()
    for one, hook in zip((ours, stock), hooks):
        norm = one.model.layers[1].input_layernorm
        add_hook_to_module(norm, AlignDevicesHook(execution_device="cpu"))
        add_hook_to_module(norm, hook, append=append)
        logits(one)
    assert len(hooks[0].kept) == len(hooks[1].kept) == 1
    close(hooks[0].kept[0], hooks[1].kept[0])


def test_a_compiled_norm_is_called():
    """With its layer's own forward fused, it would never be."""
    ours = optimize(model(), kernel=counting(reference))
    want = logits(ours)
    calls = []
    q_norm = ours.model.layers[1].self_attn.q_norm
    q_norm.compile(backend=lambda graph, _: calls.append(1) or graph.forward)
    close(logits(ours), want)
    assert calls
