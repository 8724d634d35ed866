"""CUDA graphs without a card: which calls may be replayed, and capture and replay on recorder.py's graphs."""

import copy
import gc
import warnings
import weakref

import pytest
import recorder
import reference
import torch
from qwen3_kernels import OptimizeError, graphs, optimize, replayable, restore
from support import FAMILIES, model, tokens, twin
from transformers import DynamicCache, StaticCache
from transformers.modeling_outputs import BaseModelOutputWithPast


@pytest.fixture(autouse=True)
def cards(monkeypatch):
    monkeypatch.setattr(graphs, "cuda", recorder.standing_in())
    monkeypatch.setattr(graphs, "DEVICE", "cpu")


@pytest.fixture
def captured(monkeypatch):
    """The calls that were captured, and those that were replayed."""
    seen = {"captures": 0, "replays": 0}

    class Counting(graphs.Graph):
        def __init__(self, *args):
            super().__init__(*args)
            seen["captures"] += 1

        def replay(self, call):
            seen["replays"] += 1
            return super().replay(call)

    monkeypatch.setattr(graphs, "Graph", Counting)
    return seen


def pair(family="qwen3", most=4, **changes):
    stock = model(family, **changes)
    return optimize(twin(stock), kernel=reference), optimize(stock, kernel=reference, graphs=most)


def same(one, other):
    assert type(one) is type(other) and torch.equal(one[0], other[0])
    assert (one.past_key_values is None) == (other.past_key_values is None)
    if one.past_key_values is not None:
        assert type(one.past_key_values) is type(other.past_key_values)
        for mine, theirs in zip(one.past_key_values.layers, other.past_key_values.layers):
            assert vars(mine).keys() == vars(theirs).keys()
            assert torch.equal(mine.keys, theirs.keys) and mine.keys.stride() == theirs.keys.stride()
            assert torch.equal(mine.values, theirs.values) and mine.get_seq_length() == theirs.get_seq_length()


GIVEN = {
    "tokens": lambda one, s: {"input_ids": tokens(seed=s)},
    "a mask of ones": lambda one, s: {"input_ids": tokens(seed=s), "attention_mask": torch.ones(2, 11)},
    "a cache": lambda one, s: {"input_ids": tokens(seed=s), "past_key_values": DynamicCache(config=one.config)},
    "positions": lambda one, s: {"input_ids": tokens(seed=s), "position_ids": torch.arange(s, 11 + s)[None]},
    "embeddings": lambda one, s: {"inputs_embeds": one.model.embed_tokens(tokens(seed=s)), "use_cache": False},
    "an unused cache": lambda one, s: {
        "input_ids": tokens(seed=s), "past_key_values": DynamicCache(config=one.config), "use_cache": False
    },
}  # fmt: skip


@pytest.mark.parametrize("what", GIVEN)
@torch.no_grad()
def test_a_prefill(what, captured):
    plain, ours = pair()
    outputs = [ours.model(**GIVEN[what](ours, s)) for s in range(4)]
    assert captured == {"captures": 1, "replays": 3}
    for s, output in enumerate(outputs):  # all of them, after the last replay
        same(output, plain.model(**GIVEN[what](plain, s)))


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_other_families(family, captured):
    plain, ours = pair(family)
    for s in range(3):
        same(ours.model(tokens(seed=s), use_cache=False), plain.model(tokens(seed=s), use_cache=False))
    assert captured["replays"] == 2 * (ours.config._attn_implementation == "sdpa")


def masked(one, past):
    """As generate() makes it."""
    return {"attention_mask": {"full_attention": (torch.arange(16) <= past).expand(2, 1, 1, 16)}}


@pytest.mark.parametrize("more", [lambda one, past: {}, masked, lambda one, past: {"position_ids": torch.tensor([[past]])}])
@torch.no_grad()
def test_decoding(more, captured):
    plain, ours = pair()
    results = []
    for one in (plain, ours):
        cache = StaticCache(config=one.config, max_cache_len=16)
        one.model(tokens(2, 5), past_key_values=cache)
        results.append([])
        for s in range(5):
            results[-1].append(one.model(tokens(2, 1, seed=s), past_key_values=cache, **more(one, 5 + s)))
            assert cache.get_seq_length() == 6 + s
    assert captured == {"captures": 1, "replays": 4}
    for theirs, mine in zip(*results):
        same(mine, theirs)


@torch.no_grad()
def test_generate(captured):
    plain, ours = pair()
    for kind in (None, "static"):
        kwargs = dict(max_new_tokens=8, min_new_tokens=8, do_sample=False, cache_implementation=kind, disable_compile=True)
        for _ in range(3):
            assert torch.equal(ours.generate(tokens(2, 5), **kwargs), plain.generate(tokens(2, 5), **kwargs))
    assert captured["replays"] > 5


def call(one, given=None, **rest):
    names = ("attention_mask", "position_ids", "past_key_values")
    told = [rest.pop(name, None) for name in names]
    return replayable.call_of(one, tokens() if given is None else given, *told, rest)


def filled(kind, one, count=5):
    cache = kind(config=one.config, **(dict(max_cache_len=16) if kind is StaticCache else {}))
    if count:
        one(tokens(2, count), past_key_values=cache)
    return cache


def hidden(column):
    mask = torch.ones(2, 11)
    mask[0, column] = 0
    return mask


REFUSED = {
    "a cache with something": lambda one: call(one, past_key_values=filled(DynamicCache, one)),
    "an empty static cache": lambda one: call(one, tokens(2, 1), past_key_values=filled(StaticCache, one, 0)),
    "two tokens and a static cache": lambda one: call(one, tokens(2, 2), past_key_values=filled(StaticCache, one)),
    "another batch": lambda one: call(one, tokens(1, 1), past_key_values=filled(StaticCache, one)),
    "a mask for a static cache": lambda one: call(
        one, tokens(2, 1), attention_mask=torch.ones(2, 6), past_key_values=filled(StaticCache, one)
    ),
    "padding": lambda one: call(one, attention_mask=hidden(0)),
    "a longer mask": lambda one: call(one, attention_mask=torch.ones(2, 12)),
    "a mask of four dimensions": lambda one: call(one, attention_mask=torch.ones(2, 1, 11, 11)),
    "packed": lambda one: call(one, position_ids=torch.arange(11)[None], use_cache=False),
    "too long": lambda one: call(one, tokens(2, 513)),
    "hidden states": lambda one: call(one, output_hidden_states=True),
    "attentions": lambda one: call(one, output_attentions=True),
    "a tuple": lambda one: call(one, return_dict=False),
    "another argument": lambda one: call(one, cache_position=None),
    "both": lambda one: call(one, inputs_embeds=torch.zeros(2, 11, 48)),
}


@pytest.mark.parametrize("what", REFUSED)
@torch.no_grad()
def test_a_call_that_is_not_replayed(what):
    one = optimize(model(), kernel=reference).model
    assert call(one) is not None
    assert REFUSED[what](one) is None


@pytest.mark.parametrize("family", ["qwen3-sliding", "mistral", "gemma3"])
@torch.no_grad()
def test_sliding_caches_are_not_replayed(family):
    one = optimize(model(family), kernel=reference).model
    assert call(one) is None and call(one, use_cache=False) is not None
    assert call(one, tokens(2, 1), past_key_values=filled(StaticCache, one)) is None


def test_where_a_call_is_not_replayed():
    one = optimize(model(), kernel=reference).model
    assert call(one) is None  # gradients
    with torch.no_grad():
        with torch.autocast("cpu"):
            assert call(one) is None
        one.config._attn_implementation = "eager"
        assert call(one) is None
        one.config._attn_implementation = "sdpa"
        one.rotary_emb.rope_type = "longrope"
        assert call(one) is None


@torch.no_grad()
def test_keys():
    one = optimize(model(), kernel=reference).model
    cache, other = filled(StaticCache, one), filled(StaticCache, one)
    calls = [
        call(one), call(one, tokens(1)), call(one, tokens(2, 12)), call(one, tokens().int()), call(one, use_cache=False),
        call(one, position_ids=torch.arange(11)[None]), call(one, past_key_values=cache, given=tokens(2, 1)),
        call(one, past_key_values=other, given=tokens(2, 1)),
    ]  # fmt: skip
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        calls.append(call(one))
    assert len({made.key for made in calls}) == len(calls)
    assert call(one, tokens(seed=9)).key == call(one, past_key_values=DynamicCache(config=one.config)).key == calls[0].key


class Adapter(torch.nn.Linear):
    pass


CHANGES = {
    "a parameter": lambda one: setattr(one.norm, "weight", torch.nn.Parameter(one.norm.weight.clone())),
    "its data": lambda one: setattr(one.norm.weight, "data", one.norm.weight.data.clone()),
    "fewer rows": lambda one: setattr(one.embed_tokens.weight, "data", one.embed_tokens.weight.data[:90]),
    "a buffer": lambda one: one.rotary_emb.register_buffer("inv_freq", one.rotary_emb.inv_freq.clone()),
    "a class": lambda one: setattr(one.layers[1].mlp, "act_fn", torch.nn.Identity()),
    "no layer": lambda one: one.layers.__delitem__(2),
}
REFUSALS = {
    "a hook": lambda one: one.layers[1].mlp.register_forward_hook(lambda *_: None),
    "a hook before": lambda one: one.layers[1].self_attn.q_proj.register_forward_pre_hook(lambda *_: None),
    "a forward": lambda one: setattr(one.norm, "forward", one.norm.forward),
    "training": lambda one: one.layers[1].train(),
    "an unknown class": lambda one: setattr(one.layers[1].mlp, "up_proj", Adapter(48, 80)),
    "another device": lambda one: one.norm.to("meta"),
}


@pytest.mark.parametrize("what", [*CHANGES, *REFUSALS])
def test_the_state(what):
    one = optimize(model(), kernel=reference).model
    cpu = torch.device("cpu")
    before = replayable.state_of(one, cpu)
    with torch.no_grad():
        one.norm.weight.add_(1)
    assert before and replayable.state_of(one, cpu) == before
    {**CHANGES, **REFUSALS}[what](one)
    after = replayable.state_of(one, cpu)
    assert after is None if what in REFUSALS else after != before


@torch.no_grad()
def test_weights_are_read_at_each_replay(captured):
    plain, ours = pair()
    for one in (plain, ours):
        one(tokens()), one(tokens())
        one.model.layers[1].mlp.down_proj.weight.mul_(2)
    same(ours.model(tokens()), plain.model(tokens()))
    for one in (plain, ours):
        one.model.norm.weight = torch.nn.Parameter(one.model.norm.weight * 2)
    for _ in range(3):
        same(ours.model(tokens()), plain.model(tokens()))
    assert captured == {"captures": 2, "replays": 4}


@torch.no_grad()
def test_the_least_recently_used_goes(captured):
    ours = pair(most=2)[1].model
    for length in (4, 4, 5, 5, 4, 6, 6):
        ours(tokens(2, length))
    kept = graphs._of_model[ours].graphs
    assert len(kept) == 2 and [key[0][0][0][1] for key in kept] == [4, 6]


@torch.no_grad()
def test_restore_and_copies(captured):
    plain, ours = pair()
    for _ in range(3):
        ours(tokens())
    assert not [value for value in vars(ours.model).values() if isinstance(value, (graphs.Graph, graphs.Graphs))]
    other = copy.deepcopy(ours)
    assert other.model not in graphs._of_model
    other.model.norm.weight.mul_(2)
    for _ in range(3):
        assert torch.equal(other(tokens()).logits, 2 * plain(tokens()).logits)
    graph = next(iter(graphs._of_model[ours.model].graphs.values()))
    restore(ours)
    assert ours.model not in graphs._of_model and not graph.graph.ops
    gone = weakref.ref(other.model)
    del other
    gc.collect()
    assert gone() is None


@torch.no_grad()
def test_what_cannot_be_captured(monkeypatch):
    plain, ours = pair()
    caches = [filled(StaticCache, one.model) for one in (plain, ours)]
    monkeypatch.setattr(recorder.CUDAGraph, "__init__", lambda self: 1 / 0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for s in range(4):
            results = [o.model(tokens(2, 1, seed=s), past_key_values=c) for o, c in zip((plain, ours), caches)]
            same(*results)
            ours.model(tokens())
    assert len([one for one in said if "CUDA graph" in str(one.message)]) == 1


def test_the_number():
    for wrong in (-1, 1.5, True, None):
        with pytest.raises(OptimizeError, match="graphs="):
            optimize(model(), kernel=reference, graphs=wrong)
    with torch.no_grad():
        assert type(optimize(model(), kernel=reference, graphs=1).model(tokens())) is BaseModelOutputWithPast
