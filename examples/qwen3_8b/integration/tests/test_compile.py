"""torch.compile makes one graph of a forward, and of a decode step."""

import pytest
import reference
import torch
from qwen3_kernels import optimize, restore
from support import CALLS, FAMILIES, counting, model, tokens, twin
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


def test_training_in_a_graph():
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    graph = compiled(ours)
    for forward in (stock, graph):
        forward(tokens(), labels=tokens()).loss.backward()
    for mine, theirs in zip(ours.parameters(), stock.parameters()):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)
