"""What is refused, and that what is refused or restored is as it was."""

import types

import pytest
import qwen3_kernels
import reference
import torch
import transformers
from qwen3_kernels import OptimizeError, integration, is_optimized, loader, optimize, restore, swap
from support import FAMILIES, counting, model, tokens, twin


def state(one):
    """All that optimize could have changed."""
    return [
        (name, type(module), dict(module.__dict__), dict(module._parameters), dict(module._buffers))
        for name, module in one.named_modules()
    ]


def logits(one):
    with torch.no_grad():
        return one(tokens()).logits


@pytest.mark.parametrize("family", FAMILIES)
def test_restore_leaves_no_trace(family):
    ours = model(family)
    before, want, keys = state(ours), logits(ours), list(ours.state_dict())
    assert not is_optimized(ours)
    assert optimize(ours, kernel=reference) is ours
    assert is_optimized(ours)
    assert list(ours.state_dict()) == keys
    assert restore(ours) is ours
    assert not is_optimized(ours)
    assert state(ours) == before
    assert torch.equal(logits(ours), want)


def test_optimizing_twice():
    ours = optimize(model(), kernel=reference)
    with pytest.raises(OptimizeError, match="Qwen3ForCausalLM is optimized already: restore"):
        optimize(ours, kernel=reference)
    assert is_optimized(ours)
    optimize(restore(ours), kernel=reference)


def test_restoring_what_is_stock():
    with pytest.raises(OptimizeError, match="not optimized"):
        restore(model())


@pytest.mark.parametrize("at", [0, 1, 7, 20])
def test_a_failure_half_way(monkeypatch, at):
    ours = model()
    before, want = state(ours), logits(ours)
    swapped = []

    def failing(module, cls):
        if len(swapped) == at:
            swapped.append(None)
            raise RuntimeError("half-way")
        swapped.append(module)
        swap.swap(module, cls)

    monkeypatch.setattr(integration, "swap", failing)
    with pytest.raises(RuntimeError, match="half-way"):
        optimize(ours, kernel=reference)
    assert len(swapped) > at
    assert not is_optimized(ours)
    assert state(ours) == before
    assert torch.equal(logits(ours), want)


def refused(one, match, kernel=reference):
    before = state(one)
    with pytest.raises(OptimizeError, match=match):
        optimize(one, kernel=kernel)
    assert state(one) == before


def test_models_that_are_not_known():
    small = dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
    small.update(num_key_value_heads=2, head_dim=8)
    moe = transformers.Qwen3MoeConfig(**small, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
    refused(transformers.Qwen3MoeForCausalLM(moe), "Qwen3MoeForCausalLM holds no model that is known")
    refused(transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**small, pad_token_id=0)), "Olmo2ForCausalLM")
    refused(torch.nn.Linear(2, 2), "Linear holds no model")
    with pytest.raises(OptimizeError, match="str is no model"):
        optimize("Qwen/Qwen3-8B", kernel=reference)


def test_a_subclass_of_a_known_model():
    ours = model()
    ours.model.__class__ = type("MyModel", (type(ours.model),), {})
    refused(ours, "holds no model that is known")


def test_a_layer_of_ones_own():
    ours = model()
    layer = ours.model.layers[1]
    layer.__class__ = type("MyLayer", (type(layer),), {})
    refused(ours, "model.layers.1 is a MyLayer, not the Qwen3DecoderLayer")


def test_a_norm_of_ones_own():
    ours = model()
    ours.model.layers[2].self_attn.k_norm = torch.nn.RMSNorm(16)
    refused(ours, "model.layers.2.self_attn.k_norm is a RMSNorm, not the Qwen3RMSNorm")


def test_a_norm_where_none_is_known():
    ours = model()
    ours.model.layers[0].mlp.extra = type(ours.model.norm)(8)
    refused(ours, "model.layers.0.mlp.extra .Qwen3RMSNorm. is a norm at a place that is not known")


def test_another_activation():
    refused(model(hidden_act="gelu"), "model.layers.0.mlp.act_fn is GELUActivation")


@pytest.mark.parametrize("path", ["model.norm", "model.layers.1", "model.layers.0.self_attn", "model.layers.2.mlp"])
def test_a_module_patched_by_another(path):
    ours = model()
    module = ours.get_submodule(path)
    module.forward = types.MethodType(lambda self, *args, **kwargs: None, module)
    refused(ours, f"the forward of {path} .* is not its class's own")


def test_a_class_patched_by_another(monkeypatch):
    ours = model()
    stock = type(ours.model.layers[0].mlp)
    monkeypatch.setattr(
        stock, "forward", lambda self, x: self.down_proj(torch.relu(self.gate_proj(x)) * self.up_proj(x))
    )
    refused(ours, "Qwen3MLP.forward of transformers .* is not the one that is known .by: act_fn, relu, torch.")


def test_another_transformers(monkeypatch):
    monkeypatch.setattr(integration, "_version", lambda: "4.57.1")
    refused(model(), "transformers 4.57.1 is not known")


@pytest.mark.parametrize("hook", ["forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"])
def test_a_hook_in_front_of_a_layer(hook):
    ours = model()
    getattr(ours.model.layers[1], f"register_{hook}")(lambda *_: None)
    refused(ours, "model.layers.1 has a hook in front of it or on its gradients, .* or register it after optimize")


@pytest.mark.parametrize("hook", ["forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"])
@pytest.mark.parametrize(
    "family, path",
    [
        ("qwen3", "model.norm"),
        ("qwen3", "model.layers.1.input_layernorm"),
        ("qwen3", "model.layers.2.post_attention_layernorm"),
        ("gemma2", "model.layers.0.pre_feedforward_layernorm"),
    ],
)
def test_a_hook_on_a_norm_with_an_addition_in_it(family, path, hook):
    ours = model(family)
    getattr(ours.get_submodule(path), f"register_{hook}")(lambda *_: None)
    refused(ours, f"{path} has a hook, and the addition in front of it is made in it: remove the hook, or register it")


@pytest.mark.parametrize(
    "family, path",
    [("qwen3", "self_attn.k_norm"), ("gemma2", "post_attention_layernorm"), ("gemma2", "post_feedforward_layernorm")],
)
def test_a_hook_on_a_norm_of_one_tensor_is_none_of_these(family, path):
    ours = model(family)
    ours.model.layers[1].get_submodule(path).register_forward_hook(lambda *_: None)
    want = logits(ours)
    torch.testing.assert_close(logits(optimize(ours, kernel=reference)), want, rtol=1e-5, atol=1e-5)


def test_a_kernel_that_lacks_something():
    lacking = types.ModuleType("lacking")
    lacking.rms_norm = reference.rms_norm
    refused(model(), "has no add_rms_norm, rope, qk_norm_rope, swiglu; build it with", kernel=lacking)


def test_a_folder_that_is_not_there(tmp_path, monkeypatch):
    import kernels

    def opened(*_, **__):
        raise AssertionError("the network is asked for")

    monkeypatch.setattr(kernels, "get_kernel", opened)
    refused(model(), "no such build folder; build it with", kernel=tmp_path / "build")
    refused(model(), "no such build folder", kernel=str(tmp_path / "build"))
    refused(model(), "no such build folder", kernel="./build")
    refused(model(), "no such build folder", kernel="build/torch-stable")
    monkeypatch.setenv(loader.VARIABLE, str(tmp_path / "elsewhere"))
    refused(model(), "elsewhere: no such build folder", kernel=None)
    refused(model(), "cannot be loaded", kernel=tmp_path)


def test_a_repository_is_asked_for_by_its_name(monkeypatch):
    import kernels

    asked = []
    monkeypatch.setattr(kernels, "get_kernel", lambda *a, **k: asked.append((a, k)) or reference)
    assert loader.load("someone/qwen3-kernels") is reference
    monkeypatch.setenv(loader.VARIABLE, "someone/other")
    assert loader.load() is reference
    assert asked == [(("someone/qwen3-kernels",), {"version": 1}), (("someone/other",), {"version": 1})]


def test_mixed_dtypes():
    ours = optimize(model(), kernel=reference)
    ours.model.layers[1].input_layernorm.to(torch.float64)
    with pytest.raises(OptimizeError, match="Qwen3RMSNorm has its weight in torch.float64 and gets torch.float32"):
        logits(ours)


def test_autocast():
    ours = optimize(model(), kernel=reference)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), pytest.raises(OptimizeError, match="autocast"):
        ours(tokens())


def test_casts_and_copies():
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    torch.testing.assert_close(logits(ours.double()), logits(stock.double()), rtol=1e-6, atol=1e-6)
    copied = twin(ours)
    assert is_optimized(copied)
    assert torch.equal(logits(copied), logits(ours))
    restore(copied)
    assert is_optimized(ours)
    ours.bfloat16(), stock.bfloat16()
    assert (logits(ours) - logits(stock)).abs().max() < 0.1


def test_weights_loaded_afterwards():
    stock, ours = model(), optimize(model(), kernel=reference)
    weights = {name: tensor * 0.9 for name, tensor in stock.state_dict().items()}
    ours.load_state_dict(weights)
    stock.load_state_dict(weights)
    torch.testing.assert_close(logits(ours), logits(stock), rtol=1e-5, atol=1e-5)


def test_it_is_saved_as_a_stock_model(tmp_path):
    ours = optimize(model(), kernel=reference)
    ours.save_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(again) is transformers.Qwen3ForCausalLM and not is_optimized(again)
    torch.testing.assert_close(logits(again.eval()), logits(ours), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits(optimize(again, kernel=reference)), logits(ours))


def test_a_pipeline():
    holder = types.SimpleNamespace(model=model())
    assert optimize(holder, kernel=reference) is holder
    assert is_optimized(holder) and is_optimized(holder.model)
    restore(holder)


def test_the_base_model_alone():
    stock = model().model
    ours = optimize(twin(stock), kernel=reference)
    with torch.no_grad():
        one, other = ours(tokens()).last_hidden_state, stock(tokens()).last_hidden_state
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_two_models_and_two_kernels():
    kernels = counting(reference), counting(reference)
    both = [optimize(model(), kernel=kernel) for kernel in kernels]
    logits(both[0])
    assert kernels[0].calls and not kernels[1].calls


def test_the_configs():
    whole = qwen3_kernels.config("8b")
    assert (whole.num_hidden_layers, whole.hidden_size, whole.intermediate_size) == (36, 4096, 12288)
    assert (whole.num_attention_heads, whole.num_key_value_heads, whole.head_dim) == (32, 8, 128)
    assert whole.rope_parameters["rope_theta"] == 1000000.0 and whole.rms_norm_eps == 1e-6
    with torch.device("meta"):
        made = transformers.Qwen3ForCausalLM(whole)
    assert sum(p.numel() for p in made.parameters()) == 8190735360  # as the checkpoint
    assert sum("norm" in name for name, _ in made.named_parameters()) == 145
    optimize(made, kernel=reference)
    with pytest.raises(ValueError, match="there are: 8b, smoke"):
        qwen3_kernels.config("9b")
    smoke = transformers.Qwen3ForCausalLM(qwen3_kernels.config("smoke")).eval()
    want = logits(smoke)
    torch.testing.assert_close(logits(optimize(smoke, kernel=reference)), want, rtol=1e-4, atol=1e-4)


def test_one_kernel_makes_the_same_classes_again():
    """Else torch.compile would compile anew each time."""
    one, other = optimize(model(), kernel=reference), optimize(model(), kernel=reference)
    assert type(one.model.norm) is type(other.model.norm) is not type(restore(other).model.norm)


def test_a_cache_that_is_told_where_to_write():
    """transformers 5.0 handed cache_position to the cache; the attention of today has no such argument."""
    from qwen3_kernels import families, forwards

    stock = model()
    now = type(stock.model.layers[0].self_attn)

    def forward(self, hidden_states, position_embeddings, attention_mask, past_key_values=None, cache_position=None):
        raise AssertionError("this one is replaced")

    then = type(now.__name__, (now,), {"forward": forward, "__module__": now.__module__})
    attend = forwards.attention(reference, families.FAMILIES[0], then)
    told = []

    class Cache:
        def update(self, key, value, layer, where):
            told.append((layer, where))
            return key, value

    x = torch.randn(1, 5, 48)
    tables = stock.model.rotary_emb(x, torch.arange(5)[None])
    where = torch.arange(5)
    attention = stock.model.layers[1].self_attn
    with torch.no_grad():
        mine, _ = attend(attention, x, tables, None, past_key_values=Cache(), cache_position=where)
        theirs, _ = attention(x, tables, None)
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
    assert told == [(1, {"sin": tables[1], "cos": tables[0], "cache_position": where})]


@pytest.mark.parametrize("first", [False, True], ids=["afterwards", "before"])
def test_kernelize(first, monkeypatch):
    """The Hub library's own way: beside ours it does nothing, and what it has patched before is refused."""
    import kernels

    # transformers' decorator does this if it accepts the version of kernels.
    norm = transformers.models.qwen3.modeling_qwen3.Qwen3RMSNorm
    monkeypatch.setattr(norm, "kernel_layer_name", "RMSNorm", raising=False)
    monkeypatch.setattr(norm, "kernel_condition", staticmethod(lambda module: True), raising=False)

    class Foreign(torch.nn.Module):
        def forward(self, hidden_states):
            return hidden_states

    ours = model() if first else optimize(model(), kernel=reference)
    want = logits(ours)

    class Repository:
        def load(self):
            return Foreign

    repository = Repository()
    with kernels.use_kernel_mapping({"RMSNorm": {"cpu": repository}}, inherit_mapping=False):
        kernels.kernelize(ours, mode=kernels.Mode.INFERENCE, device="cpu")
    if first:
        assert not torch.equal(logits(ours), want)
        refused(ours, "the forward of model.norm .Qwen3RMSNorm. is not its class's own")
    else:
        assert torch.equal(logits(ours), want)
