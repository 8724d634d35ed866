"""generate(), token for token."""

import pytest
import reference
import torch
from qwen3_kernels import optimize
from support import FAMILIES, left_padded, model, tokens, twin
from transformers import DynamicCache


def generated(one, ids, **kwargs):
    return one.generate(ids, max_new_tokens=12, min_new_tokens=12, do_sample=False, pad_token_id=0, **kwargs)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy(family, cache, attention):
    stock = model(family, attention=attention)
    ours = optimize(twin(stock), kernel=reference)
    ids, mask = left_padded(tokens(3, 9), 9, 5, 2)
    kwargs = {"attention_mask": mask, **({"cache_implementation": cache} if cache else {})}
    assert torch.equal(generated(ours, ids, **kwargs), generated(stock, ids, **kwargs))


def test_what_a_cache_holds():
    """It takes the first k and v as they are, and must grow, be cropped, reordered and repeated as ever."""
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    ids = tokens(2, 9)
    held = []
    for one in (ours, stock):
        cache, seen = DynamicCache(config=one.config), []
        with torch.no_grad():
            for part in (ids[:, :5], ids[:, 5:6], ids[:, 6:]):
                seen.append(one(part, past_key_values=cache).logits)
            cache.crop(-3)
            cache.reorder_cache(torch.tensor([1, 0]))
            cache.batch_repeat_interleave(2)
            seen.append(one(ids[:, :1].repeat(2, 1), past_key_values=cache).logits)
        assert cache.get_seq_length() == 7
        held.append(seen + [t for layer in cache.layers for t in (layer.keys, layer.values)])
    for mine, theirs in zip(*held):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", [dict(num_beams=3), dict(use_cache=False), dict(num_beams=2, num_return_sequences=2)])
def test_other_ways(how):
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    assert torch.equal(generated(ours, tokens(2, 6), **how), generated(stock, tokens(2, 6), **how))


def test_sampling_draws_the_same():
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    drawn = []
    for one in (ours, stock):
        torch.manual_seed(4)
        drawn.append(one.generate(tokens(2, 6), max_new_tokens=8, do_sample=True, top_k=20, pad_token_id=0))
    assert torch.equal(*drawn)


def test_a_helper_that_drafts():
    stock, helper = model(), model(num_hidden_layers=1, layer_types=["full_attention"])
    ours = optimize(twin(stock), kernel=reference)
    ids = tokens(1, 6)
    assert torch.equal(generated(ours, ids, assistant_model=helper), generated(stock, ids))
    optimize(helper, kernel=reference)
    assert torch.equal(generated(ours, ids, assistant_model=helper), generated(stock, ids))


def test_scores_and_hidden_states_come_along():
    stock = model(attention="eager")
    ours = optimize(twin(stock), kernel=reference)
    wanted = dict(return_dict_in_generate=True, output_hidden_states=True, output_scores=True, output_attentions=True)
    one, other = (generated(m, tokens(2, 6), **wanted) for m in (ours, stock))
    assert torch.equal(one.sequences, other.sequences)
    for mine, theirs in zip(one.hidden_states, other.hidden_states):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
