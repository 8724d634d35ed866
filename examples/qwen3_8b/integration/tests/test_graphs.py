"""When a forward is captured, when it is replayed, and when neither: plain torch in the place of CUDA graphs."""

import copy
import gc
import threading
import weakref

import pytest
import reference
import torch
from qwen3_kernels import OptimizeError, eligible, graphs, optimize, restore
from qwen3_kernels.forwards import GRAPHS
from support import FAMILIES, model, tokens
from transformers import StaticCache


class Computed:
    """In the place of graphs.Pool: a replay computes the forward again, and is counted."""

    captures = replays = waits = 0
    fails = None

    def capture(self, run, tensors):
        if Computed.fails:
            raise Computed.fails
        Computed.captures += 1
        # A capture computes nothing, so what it has written is taken back.
        call = next(cell.cell_contents for cell in run.__closure__ if type(cell.cell_contents) is eligible.Call)
        cache = call.given.get("past_key_values")
        layers = [] if cache is None else cache.layers
        held = [one for layer in layers for one in (layer.keys, layer.values, layer.cumulative_length)]
        before = [one.clone() for one in held]
        run(tensors)
        for one, was in zip(held, before):
            one.copy_(was)
        return run, [one.clone() for one in tensors]

    def replay(self, captured, given):
        Computed.replays += 1
        run, inputs = captured
        for own, one in zip(inputs, given):
            own.copy_(one)
        return [one.clone() for one in run(inputs)]

    def wait(self):
        Computed.waits += 1


@pytest.fixture(autouse=True)
def computed(monkeypatch):
    monkeypatch.setattr(graphs, "Pool", Computed)
    monkeypatch.setattr(eligible, "here", lambda: torch.device("cpu"))
    Computed.captures = Computed.replays = Computed.waits = 0
    Computed.fails = None
    with torch.no_grad():
        yield


def made(family="qwen3", most=16, **changes):
    return optimize(model(family, **changes), kernel=reference, graphs=most)


def replays(call, times=3):
    """How many of some calls were replays; each gives what the first, plain one gave."""
    before, first = Computed.replays, call()
    for _ in range(times - 1):
        assert torch.equal(call(), first)
    return Computed.replays - before


def of(one, **given):
    return lambda: one(tokens(), **given).logits


@pytest.mark.parametrize("family", ["qwen3", "qwen2", "llama", "gemma"])
@pytest.mark.parametrize("use_cache", [False, True, None])
def test_the_first_call_is_plain_the_second_is_captured_and_replayed(family, use_cache):
    one = made(family)
    assert replays(of(one, use_cache=use_cache)) == 2 and Computed.captures == 1
    assert replays(lambda: one(tokens(length=5), use_cache=use_cache).logits) == 2 and Computed.captures == 2
    assert replays(of(one, use_cache=use_cache)) == 3


def test_without_the_option_nothing_is_captured():
    one = optimize(model(), kernel=reference)
    assert replays(of(one)) == 0 and GRAPHS not in vars(one.model)


def test_other_tokens_give_their_own_results_and_leave_the_earlier_ones():
    one, plain = made(), optimize(model(), kernel=reference)
    kept = [one.model(tokens(seed=seed), use_cache=True) for seed in range(4)]
    assert Computed.replays == 3
    for seed, got in enumerate(kept):
        want = plain.model(tokens(seed=seed), use_cache=True)
        assert torch.equal(got.last_hidden_state, want.last_hidden_state)
        assert type(got) is type(want) and type(got.past_key_values) is type(want.past_key_values)
        for mine, theirs in zip(got.past_key_values.layers, want.past_key_values.layers):
            assert vars(mine).keys() == vars(theirs).keys() and type(mine) is type(theirs)
            assert torch.equal(mine.keys, theirs.keys) and torch.equal(mine.values, theirs.values)
    grown = one(tokens(length=1), past_key_values=kept[1].past_key_values)
    assert grown.past_key_values.get_seq_length() == 12 and kept[2].past_key_values.get_seq_length() == 11


def decoded(one, steps, cache=None):
    cache = cache or StaticCache(config=one.config, max_cache_len=24)
    seen = [one(tokens(2, 7), past_key_values=cache).logits]
    for step in range(steps):
        output = one(tokens(2, 1, seed=step), past_key_values=cache)
        assert output.past_key_values is cache
        seen.append(output.logits)
    return torch.cat(seen, 1), cache


def test_decoding_over_a_static_cache():
    one, plain = made(), optimize(model(), kernel=reference)
    got, cache = decoded(one, 5)
    assert Computed.replays == 4 and Computed.captures == 1
    assert torch.equal(got, decoded(plain, 5)[0])
    cache.reset()
    got, _ = decoded(one, 5, cache)  # now the prefill's mask depends on the counter: it is plain, the steps are not
    assert Computed.replays == 9 and Computed.captures == 1
    assert torch.equal(got, decoded(plain, 5)[0])
    decoded(one, 2)  # another cache lies elsewhere
    assert Computed.captures == 2


def test_generate_over_a_static_cache():
    want = model().generate(tokens(2, 6), max_new_tokens=9, do_sample=False, pad_token_id=0)
    static = dict(cache_implementation="static", disable_compile=True)
    got = made().generate(tokens(2, 6), max_new_tokens=9, do_sample=False, pad_token_id=0, **static)
    assert torch.equal(got, want[:, : got.shape[1]]) and Computed.replays >= 5


FOUR = torch.ones(11, 11, dtype=torch.bool).tril().expand(2, 1, 11, 11)


@pytest.mark.parametrize(
    "given",
    [
        dict(attention_mask=FOUR),
        dict(attention_mask=FOUR, position_ids=torch.arange(11)[None]),
        dict(attention_mask={"full_attention": FOUR}),
        dict(attention_mask={"full_attention": None}, use_cache=False),
    ],
)
def test_a_mask_that_is_made_is_taken(given):
    one = made()
    assert replays(lambda: one.model(tokens(), **given).last_hidden_state) == 2


@pytest.mark.parametrize(
    "given",
    [
        dict(attention_mask=torch.ones(2, 11, dtype=torch.long)),
        dict(position_ids=torch.arange(11)[None]),
        dict(is_causal=False),
        dict(output_hidden_states=True),
        dict(output_attentions=False),
    ],
    ids=lambda given: next(iter(given)),
)
def test_an_argument_that_is_looked_at_or_not_known(given):
    one = made()
    assert replays(lambda: one.model(tokens(), **given).last_hidden_state) == 0


def test_a_cache_that_grows_or_a_longer_text():
    one = made(most=10)
    assert replays(of(one)) == 0
    cache = one(tokens(length=5)).past_key_values
    for _ in range(3):
        one(tokens(length=1), past_key_values=cache)
    assert cache.get_seq_length() == 8 and Computed.replays == 0


@pytest.mark.parametrize("family", ["qwen3-sliding", "mistral", "gemma2", "gemma3"])
def test_windows(family):
    one = made(family)
    assert replays(of(one)) == 0 and replays(lambda: one(tokens(length=4)).logits) == 0
    decoded(one, 3)
    assert Computed.replays == 0


@pytest.mark.parametrize("change", [dict(attention="eager"), dict(is_causal=False)], ids=str)
def test_another_attention(change):
    assert replays(of(made(**change))) == 0


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_frequencies_that_depend_on_the_text(kind):
    factors = dict(short_factor=[1.0] * 8, long_factor=[2.0] * 8, original_max_position_embeddings=8)
    rope = dict(rope_type=kind, rope_theta=10000.0, factor=2.0, **(factors if kind == "longrope" else {}))
    assert replays(of(made(rope_parameters=rope))) == 0


@pytest.mark.parametrize("mode", [torch.enable_grad, lambda: torch.device("cpu")], ids=["gradients", "a device"])
def test_a_mode_that_changes_operations(mode):
    one = made()
    with mode():
        assert replays(of(one)) == 0
    assert replays(of(one)) == 2


def test_settings_have_graphs_of_their_own():
    one = made()
    replays(of(one))
    with torch.inference_mode():
        assert replays(of(one)) == 2 and one(tokens()).logits.is_inference()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        of(one)(), of(one)()
    assert Computed.captures == 3
    assert replays(of(one)) == 3 and not one(tokens()).logits.is_inference()


def weight_in_place(one):
    one.model.norm.weight.mul_(2)


def weight_replaced(one):
    one.model.norm.weight = torch.nn.Parameter(one.model.norm.weight * 2)


def data_replaced(one):
    one.model.norm.weight.data = one.model.norm.weight * 2


def module_replaced(one):
    one.model.layers[1].mlp.up_proj = torch.nn.Linear(48, 80, bias=False).eval()


def epsilon(one):
    one.model.layers[1].input_layernorm.variance_epsilon = 0.5


def fewer_layers(one):
    one.model.config.num_hidden_layers = 2


def buffer_replaced(one):
    one.model.rotary_emb.inv_freq = one.model.rotary_emb.inv_freq * 0.5


def transposed(one):
    weight = one.model.layers[0].mlp.down_proj.weight
    weight.data = weight.data.view(80, 48).t()


CHANGES = [weight_replaced, data_replaced, module_replaced, epsilon, fewer_layers, buffer_replaced, transposed]


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_is_captured_anew(change):
    one = made()
    replays(of(one, use_cache=False))
    change(one)
    assert replays(of(one, use_cache=False)) == 2 and Computed.captures == 2


def test_a_class_that_is_patched_is_captured_anew(monkeypatch):
    one = made()
    replays(of(one))
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, x: torch.nn.functional.linear(x, self.weight) * 2)
    assert replays(of(one)) == 2 and Computed.captures == 2


def test_layers_that_are_left_out_leave_a_cache_that_is_not_known():
    one = made()
    fewer_layers(one)
    assert replays(of(one, use_cache=True)) == 0


def test_weights_changed_in_place_are_seen():
    one = made()
    before = of(one)()
    replays(of(one))
    weight_in_place(one)
    assert replays(of(one)) == 3 and Computed.captures == 1
    assert not torch.equal(of(one)(), before)


def hook(one):
    return one.model.layers[1].register_forward_hook(lambda *_: None)


def global_hook(one):
    return torch.nn.modules.module.register_module_forward_hook(lambda *_: None)


class Undone:
    def __init__(self, undo):
        self.remove = undo


def training(one):
    one.model.layers[0].mlp.train()
    return Undone(one.eval)


def forward_replaced(one):
    mlp = one.model.layers[0].mlp
    mlp.forward = lambda x: x
    return Undone(lambda: vars(mlp).pop("forward"))


def attention_replaced(one):
    one.set_attn_implementation("eager")
    return Undone(lambda: one.set_attn_implementation("sdpa"))


def compiled(one):
    one.model.layers[0].mlp.compile(backend="eager")
    return Undone(lambda: vars(one.model.layers[0].mlp).pop("_compiled_call_impl"))


def elsewhere(one):
    norm = one.model.norm
    was, norm.weight = norm.weight, torch.nn.Parameter(torch.ones(48, device="meta"))
    norm.forward = lambda x: x[0] + x[1] if type(x) is list else x

    def undo():
        norm.weight = was
        del norm.forward

    return Undone(undo)


@pytest.mark.parametrize("change", [hook, global_hook, training, forward_replaced, attention_replaced, compiled, elsewhere])
def test_what_somebody_sees_or_changes_is_plain(change):
    one = made()
    replays(of(one))
    change = change(one)
    assert replays(of(one)) == 0
    change.remove()
    assert replays(of(one)) >= 2


def test_compiled_there_are_none():
    one = made()
    want = of(one)()
    graph = torch.compile(one, backend="eager", fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(graph(tokens()).logits, want, rtol=1e-5, atol=1e-5)
    assert Computed.replays == 0


def test_a_module_of_ones_own():
    class Mine(torch.nn.Linear):
        pass

    one = made()
    one.model.layers[1].mlp.up_proj.__class__ = Mine
    assert replays(of(one)) == 0


def test_only_so_many_are_kept(monkeypatch):
    monkeypatch.setattr(graphs, "MOST", 2)
    one = made()
    for length in (3, 4, 5):
        assert replays(lambda length=length: one(tokens(length=length)).logits) == 2
    held = vars(one.model)[GRAPHS]
    assert len(held.graphs) == 2 and Computed.waits == 1
    assert replays(lambda: one(tokens(length=5)).logits) == 3
    one(tokens(length=3))
    assert Computed.captures == 4


def test_a_capture_that_fails_is_not_tried_again():
    one = made()
    Computed.fails = RuntimeError("operation not permitted when stream is capturing")
    assert replays(of(one)) == 0
    Computed.fails = None
    assert replays(of(one)) == 0 and Computed.captures == 0
    assert replays(lambda: one(tokens(length=3)).logits) == 2


def test_another_thread_calls_first_on_its_own():
    one, found = made(), []
    of(one)()

    def run():
        with torch.no_grad():
            found.append(replays(of(one)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [2] and replays(of(one)) == 3


def test_a_wrong_call_says_what_it_says():
    one = made()
    for _ in range(3):
        with pytest.raises(TypeError):
            one.model(tokens(), input_ids=tokens())
        with pytest.raises(ValueError, match="exactly one"):
            one.model(tokens(), inputs_embeds=torch.zeros(2, 11, 48))
        with pytest.raises(TypeError):
            one.model(tokens(), None, None, None, None, False, 7)


def test_a_copy_has_graphs_of_its_own():
    one = made()
    replays(of(one))
    other = copy.deepcopy(one)
    held, copied = vars(one.model)[GRAPHS], vars(other.model)[GRAPHS]
    assert held is not copied and copied.tokens == 16 and not copied.graphs
    assert replays(of(other)) == 2
    restore(other)
    assert replays(of(one)) == 3 and replays(of(other)) == 0


def test_restore_frees_them_and_nothing_keeps_the_model():
    one = made()
    replays(of(one))
    held = weakref.ref(vars(one.model)[GRAPHS])
    restore(one)
    assert held() is None and GRAPHS not in vars(one.model)
    one = made()
    of(one)()  # what stands in for a graph would keep the model
    gone = weakref.ref(one.model), weakref.ref(one.model.layers[1].mlp.up_proj.weight)
    gc.disable()
    try:
        del one
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("one", [FOUR, FOUR[:, :, :, 2:7], torch.arange(6).view(2, 3).t(), torch.ones(1, 1)])
def test_the_room_of_a_tensor(one):
    own = graphs._room(one)
    own.copy_(one.as_strided(own.shape, one.stride()))
    assert torch.equal(own.expand(one.shape), one) and own.expand(one.shape).stride() == one.stride()
    assert own.numel() == one.numel() / (2 if one.dim() == 4 else 1)


@pytest.mark.parametrize("wrong", [-1, True, 1.5, "128", None])
def test_what_is_no_number_of_tokens(wrong):
    with pytest.raises(OptimizeError, match="graphs=.* most tokens of a sequence"):
        optimize(model(), kernel=reference, graphs=wrong)


@pytest.mark.parametrize("family", FAMILIES)
def test_on_the_cpu_it_is_as_without(family, monkeypatch):
    monkeypatch.undo()
    assert replays(of(made(family))) == 0
