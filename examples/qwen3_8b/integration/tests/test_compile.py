"""torch.compile makes one graph of a forward, and of a decode step."""

import pytest
import reference
import torch
from qwen3_kernels import optimize, restore
from support import CALLS, FAMILIES, counting, left_padded, model, tokens, twin
from transformers import DynamicCache, StaticCache


def compiled(one, backend="aot_eager", **kwargs):
    return torch.compile(one, backend=backend, fullgraph=True, **kwargs)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_forward(family):
    stock = model(family)
    ours = compiled(optimize(twin(stock), kernel=reference))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens()).logits, stock(tokens()).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [StaticCache, DynamicCache])
def test_decoding(kind):
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    step = compiled(ours)
    results = []
    for one, decode in ((ours, step), (stock, stock)):
        cache = kind(config=one.config, **(dict(max_cache_len=16) if kind is StaticCache else {}))
        with torch.no_grad():
            one(tokens(2, 5), past_key_values=cache)
            results.append([decode(tokens(2, 1, seed=s), past_key_values=cache).logits for s in range(3)])
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_it_is_the_kernel_that_is_compiled():
    kernel = counting(reference)
    ours = compiled(optimize(model(), kernel=kernel), "eager")
    with torch.no_grad():
        ours(tokens())
    assert dict(kernel.calls) == CALLS["qwen3"]


def test_a_model_compiled_before():
    """The classes are among what torch.compile guards: it notices both ways."""
    stock = model()
    ours = twin(stock)
    graph = compiled(ours, "eager")
    kernel = counting(reference)
    with torch.no_grad():
        want = stock(tokens()).logits
        torch.testing.assert_close(graph(tokens()).logits, want)
        optimize(ours, kernel=kernel)
        torch.testing.assert_close(graph(tokens()).logits, want, rtol=1e-5, atol=1e-5)
        assert kernel.calls["add_rms_norm"] == 6
        restore(ours)
        kernel.calls.clear()
        torch.testing.assert_close(graph(tokens()).logits, want)
        assert not kernel.calls


def test_hidden_states_in_a_graph():
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    with torch.no_grad():
        # transformers installs hooks on the layers at the first such call, under a lock, which Dynamo cannot trace in a
        # stock model either.
        ours(tokens(), output_hidden_states=True)
        one = compiled(ours)(tokens(), output_hidden_states=True)
        other = stock(tokens(), output_hidden_states=True)
    assert len(one.hidden_states) == len(other.hidden_states) == 4
    for mine, theirs in zip(one.hidden_states, other.hidden_states):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


def test_hooks_in_a_graph():
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    for one in (stock, ours):
        for path in ("layers.1", "layers.2.post_attention_layernorm", "layers.0.self_attn.k_norm", "norm"):
            one.model.get_submodule(path).register_forward_pre_hook(lambda m, given: (given[0] * 2 + 0.5,))
    with torch.no_grad():
        torch.testing.assert_close(compiled(ours)(tokens()).logits, stock(tokens()).logits, rtol=1e-5, atol=1e-5)


def test_training_in_a_graph():
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    graph = compiled(ours)
    for forward in (stock, graph):
        forward(tokens(), labels=tokens()).loss.backward()
    for mine, theirs in zip(ours.parameters(), stock.parameters()):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def attentions(graphs):
    """Of each call of the attention in graphs: whether it gets a mask, and whether it is told that it is causal."""
    calls = [node for graph in graphs for node in graph.nodes if "scaled_dot_product_attention" in str(node.target)]
    return [(node.kwargs.get("attn_mask") is not None, bool(node.kwargs.get("is_causal"))) for node in calls]


def held(one, call):
    """What a compiled call gives, and the attention in its graphs."""
    graphs = []

    def backend(module, _):
        graphs.append(module.graph)
        return module.forward

    with torch.no_grad():
        return call(torch.compile(one, backend=backend, fullgraph=True)), attentions(graphs)


def cache_with(one, count):
    cache = DynamicCache(config=one.config)
    if count:
        with torch.no_grad():
            one(tokens(2, count), past_key_values=cache)
    return cache


@pytest.mark.parametrize("family", FAMILIES)
def test_a_causal_attention_has_no_mask(family):
    """Where all tokens are asked for and none is hidden. A window that is no shorter than the text hides none."""
    stock = model(family)
    ours = optimize(twin(stock), kernel=reference)
    got, attention = held(ours, lambda call: call(tokens(2, 5)).logits)
    with torch.no_grad():
        torch.testing.assert_close(got, stock(tokens(2, 5)).logits, rtol=1e-5, atol=1e-5)
    if stock.config._attn_implementation == "sdpa":
        assert attention == [(False, True)] * 3


def test_an_empty_cache_is_none():
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    _, attention = held(ours, lambda call: call(tokens(), past_key_values=DynamicCache(config=ours.config)).logits)
    assert set(attention) == {(False, True)}


def test_a_mask_by_position_stays():
    ours = optimize(model(), kernel=reference).model
    mask = left_padded(tokens(2, 11), 3, 11)[1]
    positions = torch.arange(4, 15)[None]
    for given, masked in (((tokens(),), False), ((tokens(), mask), True), ((tokens(), None, positions), True)):
        _, attention = held(ours, lambda call, given=given: call(*given))
        assert {found for found, _ in attention} == {masked}


HIDING = {
    "padding": lambda one: {"attention_mask": left_padded(tokens(2, 11), 3, 11)[1]},
    "packed": lambda one: {"position_ids": torch.tensor([[*range(6), *range(5)]] * 2), "use_cache": False},
    "positions": lambda one: {"position_ids": torch.arange(4, 15)[None]},
    "a cache": lambda one: {"past_key_values": cache_with(one, 4)},
    "a cache of a fixed length": lambda one: {"past_key_values": StaticCache(config=one.config, max_cache_len=16)},
}


@pytest.mark.parametrize("what", HIDING)
def test_a_mask_that_hides_more_stays(what):
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    given, also = HIDING[what](ours), HIDING[what](stock)
    got, attention = held(ours, lambda call: call(tokens(2, 11), **given).logits)
    assert {mask for mask, _ in attention} == {True}, what
    with torch.no_grad():
        want = stock(tokens(2, 11), **also).logits
    seen = given["attention_mask"].bool() if "attention_mask" in given else torch.ones(2, 11, dtype=torch.bool)
    torch.testing.assert_close(got[seen], want[seen], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["mistral", "qwen3-sliding"])
def test_a_window_shorter_than_the_text_stays(family):
    stock = model(family)
    ours = optimize(twin(stock), kernel=reference)
    got, attention = held(ours, lambda call: call(tokens(2, 40)).logits)
    assert any(mask for mask, _ in attention)
    with torch.no_grad():
        torch.testing.assert_close(got, stock(tokens(2, 40)).logits, rtol=1e-5, atol=1e-5)


def test_an_attention_to_both_sides_stays():
    stock = model(is_causal=False)
    ours = optimize(twin(stock), kernel=reference)
    got, attention = held(ours, lambda call: call(tokens()).logits)
    assert (False, True) not in attention
    with torch.no_grad():
        torch.testing.assert_close(got, stock(tokens()).logits, rtol=1e-5, atol=1e-5)
