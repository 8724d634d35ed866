"""That the kernels are called with the right things in the right order: a plain torch reference in their place."""

import types
import weakref

import pytest
import reference
import torch
import transformers
from qwen3_kernels import optimize
from support import CALLS, FAMILIES, counting, left_padded, model, tokens, twin
from transformers import StaticCache

TIGHT = {torch.float64: dict(rtol=1e-6, atol=1e-6), torch.float32: dict(rtol=1e-5, atol=1e-5)}


def pair(family, dtype=torch.float32, attention="sdpa", **changes):
    stock = model(family, dtype, attention, **changes)
    return stock, optimize(twin(stock), kernel=reference)


def close(one, other):
    torch.testing.assert_close(one, other, **TIGHT[other.dtype])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_logits(family, dtype, attention):
    stock, ours = pair(family, dtype, attention)
    with torch.no_grad():
        close(ours(tokens()).logits, stock(tokens()).logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer(family):
    stock, ours = pair(family)
    seen = {}

    def keep(where):
        def hook(module, args, output):
            where.append(output[0] if isinstance(output, tuple) else output)

        return hook

    with torch.no_grad():
        for one in (stock, ours):
            seen[one] = []
            for layer in one.model.layers:
                layer.self_attn.register_forward_hook(keep(seen[one]))
                layer.mlp.register_forward_hook(keep(seen[one]))
                layer.register_forward_hook(keep(seen[one]))
            one(tokens())
    assert len(seen[ours]) == len(seen[stock]) == 9
    for one, other in zip(seen[ours], seen[stock]):
        close(one, other)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_calls(family):
    kernel = counting(reference)
    ours = optimize(model(family), kernel=kernel)
    with torch.no_grad():
        ours(tokens())
    assert dict(kernel.calls) == CALLS[family]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_left_padding_and_a_cache(family, attention):
    stock, ours = pair(family, attention=attention)
    ids, mask = left_padded(tokens(3, 12), 12, 7, 4)
    with torch.no_grad():
        first = [m(ids[:, :9], attention_mask=mask[:, :9], use_cache=True) for m in (ours, stock)]
        second = [
            m(ids[:, 9:], attention_mask=mask, past_key_values=f.past_key_values) for m, f in zip((ours, stock), first)
        ]
    real = mask[:, 9:].bool()
    close(second[0].logits[real], second[1].logits[real])
    for one, other in zip(first[0].past_key_values.layers, first[1].past_key_values.layers):
        close(one.keys[0], other.keys[0])
        close(one.values[0], other.values[0])


@pytest.mark.parametrize("family", ["qwen3", "llama", "gemma2"])
def test_a_static_cache(family):
    stock, ours = pair(family)
    logits = []
    for one in (ours, stock):
        cache = StaticCache(config=one.config, max_cache_len=24)
        with torch.no_grad():
            one(tokens(2, 7), past_key_values=cache)
            logits.append(one(tokens(2, 1, seed=3), past_key_values=cache).logits)
    close(*logits)


def test_positions_of_ones_own():
    stock, ours = pair("qwen3")
    positions = torch.arange(11).flip(0).repeat(2, 1) * torch.tensor([[1], [3]])
    with torch.no_grad():
        close(ours(tokens(), position_ids=positions).logits, stock(tokens(), position_ids=positions).logits)
        assert not torch.equal(ours(tokens(), position_ids=positions).logits, ours(tokens()).logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_hidden_states_and_attentions(family):
    stock, ours = pair(family, attention="eager")
    with torch.no_grad():
        one, other = (m(tokens(), output_hidden_states=True, output_attentions=True) for m in (ours, stock))
        assert len(one.hidden_states) == 4 and len(one.attentions) == 3
        for mine, theirs in zip(one.hidden_states + one.attentions, other.hidden_states + other.attentions):
            close(mine, theirs)
        # The hooks stay behind; a forward without hidden states is still right.
        close(ours(tokens()).logits, stock(tokens()).logits)


def test_embeddings_in_place_of_tokens():
    stock, ours = pair("qwen3")
    embeddings = torch.randn(2, 5, 48, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        close(ours(inputs_embeds=embeddings).logits, stock(inputs_embeds=embeddings).logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_arguments_by_position(family):
    stock, ours = pair(family)
    embeddings = torch.randn(2, 5, 48, generator=torch.Generator().manual_seed(5))
    positions = torch.arange(5).flip(0).repeat(2, 1)
    mask = torch.ones(2, 5, dtype=torch.long)
    with torch.no_grad():
        for given in ((None, None, None, None, embeddings), (None, mask, positions, None, embeddings)):
            close(ours.model(*given).last_hidden_state, stock.model(*given).last_hidden_state)
        with pytest.raises(TypeError):
            ours.model(tokens(), input_ids=tokens())


def test_an_empty_model_has_a_norm_alone():
    stock, ours = pair("qwen3", num_hidden_layers=0, layer_types=[])
    with torch.no_grad():
        close(ours(tokens()).logits, stock(tokens()).logits)


@pytest.mark.parametrize("head", ["SequenceClassification", "TokenClassification"])
def test_another_head(head):
    made = model("qwen3").config
    stock = getattr(transformers, f"Qwen3For{head}")(made).eval()
    ours = optimize(twin(stock), kernel=reference)
    with torch.no_grad():
        close(ours(tokens()).logits, stock(tokens()).logits)


MISTAKES = [
    (family, wrong)
    for family in FAMILIES
    for wrong in ("eps", "weight_offset", "order", "sin", "gate")
    if not (wrong == "gate" and "gemma" in family)  # their MLP is not replaced
]


@pytest.mark.parametrize("family", ["qwen3", "gemma2"])
def test_nothing_is_kept_that_the_stock_layer_frees(family):
    """Two tensors go from layer to layer: in the next one's MLP, where most memory is in use, they are gone."""
    ours = optimize(model(family), kernel=reference)
    first, second = ours.model.layers[:2]
    kept, alive = [], []
    first.mlp.register_forward_hook(lambda m, a, output: kept.append(weakref.ref(output)))
    first.mlp.register_forward_pre_hook(lambda m, a: kept.append(weakref.ref(a[0])))
    second.mlp.register_forward_pre_hook(lambda *_: alive.extend(one() for one in kept))
    with torch.no_grad():
        ours(tokens())
    assert alive == [None, None]


@pytest.mark.parametrize("family, wrong", MISTAKES)
def test_a_mistake_shows(family, wrong):
    """What these tests are worth: with one thing wrong in the kernel, the logits differ."""
    broken = types.ModuleType("broken")
    broken.__dict__.update({name: getattr(reference, name) for name in dir(reference) if not name.startswith("__")})

    def norm(x, weight, eps, offset, round_first):
        eps = 1e-6 if wrong == "eps" else eps
        offset = 1.0 - offset if wrong == "weight_offset" else offset
        return reference.rms_norm(x, weight, eps, offset, round_first)

    if wrong in ("eps", "weight_offset"):
        broken.rms_norm = norm
        broken.add_rms_norm = lambda x, r, w, *rest: (norm(x + r, w, *rest), x + r)
    elif wrong == "order":
        broken.add_rms_norm = lambda x, r, *rest: (reference.rms_norm(x + r, *rest), r)
    elif wrong == "sin":
        broken.rope = lambda q, k, cos, sin: reference.rope(q, k, cos, -sin)
        broken.qk_norm_rope = lambda q, k, a, b, cos, sin, *rest: reference.qk_norm_rope(q, k, b, a, cos, sin, *rest)
    elif wrong == "gate":
        broken.swiglu = lambda gate, up: reference.swiglu(up, gate)
    stock = model(family)
    ours = optimize(twin(stock), kernel=broken)
    with torch.no_grad():
        assert (ours(tokens()).logits - stock(tokens()).logits).abs().max() > 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_rounding_is_the_models_own(family):
    """A norm in bf16, bit for bit: rounded where the model's own rounds."""
    stock = model(family, torch.bfloat16)
    ours = optimize(twin(stock), kernel=reference)
    x = torch.randn(4, 7, 48, generator=torch.Generator().manual_seed(2)).bfloat16()
    residual = torch.randn(4, 7, 48, generator=torch.Generator().manual_seed(3)).bfloat16()
    with torch.no_grad():
        want = stock.model.norm(residual + x)
        normed, total = ours.model.layers[0].input_layernorm(x, residual)
        assert torch.equal(total, residual + x)
        assert torch.equal(ours.model.norm([x, residual]), want)
        assert torch.equal(normed, stock.model.layers[0].input_layernorm(residual + x))
