"""What others hang onto the model: offloading, casting, caches, LoRA, forward hooks."""

import pytest
import reference
import torch
from diffusers import FirstBlockCacheConfig, PyramidAttentionBroadcastConfig
from diffusers.hooks import apply_group_offloading
from ltx_video_kernels import OptimizeError, optimize, restore
from support import arguments, assert_near, denoise, small, twin


def both(prepare, optimize_first, **changes):
    """diffusers' own and ours, both prepared alike; ours before or after it is optimized."""
    model = small(num_layers=3, **changes)
    ours = twin(model)
    if optimize_first:
        optimize(ours, kernel=reference)
    prepare(model), prepare(ours)
    if not optimize_first:
        optimize(ours, kernel=reference)
    return model, ours


ORDER = pytest.mark.parametrize("optimize_first", [True, False], ids=["optimized before", "optimized after"])


def leaf_offload(model):
    cpu = torch.device("cpu")
    apply_group_offloading(model, onload_device=cpu, offload_device=cpu, offload_type="leaf_level")


def block_offload(model):
    cpu = torch.device("cpu")
    apply_group_offloading(
        model, onload_device=cpu, offload_device=cpu, offload_type="block_level", num_blocks_per_group=1
    )


def sequential_offload(model):
    """enable_sequential_cpu_offload, whose weights are on the meta device until a module is called."""
    accelerate = pytest.importorskip("accelerate")
    accelerate.cpu_offload(model, torch.device("cpu"), offload_buffers=False)


def model_offload(model):
    """enable_model_cpu_offload"""
    accelerate = pytest.importorskip("accelerate")
    accelerate.cpu_offload_with_hook(model, torch.device("cpu"))


def layerwise_casting(model):
    model.enable_layerwise_casting(storage_dtype=torch.bfloat16, compute_dtype=torch.float32)


def forward_hooks(model):
    for module in model.modules():
        module.register_forward_hook(lambda *_: None)


def compiled_blocks(model):
    model.compile_repeated_blocks(backend="eager", fullgraph=True)


PREPARED = {
    "group offload of leaves": leaf_offload,
    "group offload of blocks": block_offload,
    "sequential offload": sequential_offload,
    "model offload": model_offload,
    "layerwise casting": layerwise_casting,
    "forward hooks everywhere": forward_hooks,
    "compiled blocks": compiled_blocks,
}


@ORDER
@pytest.mark.parametrize("name", PREPARED)
def test_prepared(name, optimize_first):
    model, ours = both(PREPARED[name], optimize_first)
    given = arguments(small(num_layers=3))
    right = denoise(model, given)
    assert_near(denoise(ours, given), right)
    restore(ours)
    assert torch.equal(denoise(ours, given), right)


@ORDER
def test_restore_reaches_under_the_hooks(optimize_first):
    """A hook keeps the forward that it found."""
    model, ours = both(model_offload, optimize_first)
    calls = []
    for name in ("adaln", "gate_residual_adaln_"):
        kernel = ours._ltx_kernel
        setattr(kernel, name, lambda *a, f=getattr(kernel, name), **k: calls.append(1) or f(*a, **k))
    ours(**arguments(model))
    assert calls, "the hook still calls diffusers' forward"
    calls.clear()
    restore(ours)(**arguments(model))
    assert not calls, "the hook still calls ours"


@ORDER
def test_first_block_cache(optimize_first):
    # The threshold lets some steps be computed and others not.
    model, ours = both(lambda m: m.enable_cache(FirstBlockCacheConfig(threshold=0.3)), optimize_first)
    given = arguments(model)
    results = []
    for which in (model, ours):
        counts = []
        which.transformer_blocks[-1].ff.register_forward_hook(lambda *_, counts=counts: counts.append(1))
        with which.cache_context("cond_uncond"):
            results.append((denoise(which, given, steps=6), len(counts)))
    assert results[0][1] == results[1][1] and results[0][1] < 6
    assert_near(results[1][0], results[0][0])
    for which in (model, ours):
        which.disable_cache()
    assert_near(denoise(ours, given), denoise(model, given))


@ORDER
def test_pyramid_attention_broadcast(optimize_first):
    config = PyramidAttentionBroadcastConfig(
        spatial_attention_block_skip_range=2,
        cross_attention_block_skip_range=3,
        spatial_attention_timestep_skip_range=(0, 1000),
        cross_attention_timestep_skip_range=(0, 1000),
        spatial_attention_block_identifiers=["transformer_blocks"],
        cross_attention_block_identifiers=["transformer_blocks"],
        current_timestep_callback=lambda: 500,
    )
    model, ours = both(lambda m: m.enable_cache(config), optimize_first)
    given = arguments(model)
    results = []
    for which in (model, ours):
        with which.cache_context("cond_uncond"):
            results.append(denoise(which, given, steps=4))
    assert_near(results[1], results[0])


class Lora(torch.nn.Module):
    """As peft wraps a Linear: its weight is the base's, and not all that there is."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.down = torch.nn.Linear(base.in_features, 4, bias=False)
        self.up = torch.nn.Linear(4, base.out_features, bias=False)

    @property
    def weight(self):
        return self.base_layer.weight

    @property
    def bias(self):
        return self.base_layer.bias

    def forward(self, x):
        return self.base_layer(x) + self.up(self.down(x))


def wrap(model):
    torch.manual_seed(4)
    for block in model.transformer_blocks:
        for attention in (block.attn1, block.attn2):
            for name in ("to_q", "to_k", "to_v"):
                setattr(attention, name, Lora(getattr(attention, name)))
            attention.to_out[0] = Lora(attention.to_out[0])
        block.ff.net[0].proj = Lora(block.ff.net[0].proj)
        block.ff.net[2] = Lora(block.ff.net[2])


@ORDER
def test_wrapped_linears(optimize_first):
    model, ours = both(wrap, optimize_first)
    given = arguments(model)
    right = model(**given).sample
    assert_near(ours(**given).sample, right)


def test_a_lora_scale_reaches_the_layers(monkeypatch):
    """attention_kwargs={"scale": ...} goes to peft's layers, through diffusers' decorator."""
    from diffusers.utils import peft_utils

    scales = []
    monkeypatch.setattr("diffusers.utils.USE_PEFT_BACKEND", True)
    monkeypatch.setattr(peft_utils, "scale_lora_layers", lambda _, weight: scales.append(weight))
    monkeypatch.setattr(peft_utils, "unscale_lora_layers", lambda _, weight: scales.append(-weight))
    ours = optimize(small(), kernel=reference)
    ours(**arguments(ours), attention_kwargs={"scale": 0.5})
    assert scales == [0.5, -0.5]


@pytest.mark.parametrize("side", ["given", "out"])
def test_what_a_hook_has_kept_is_not_written_over(side):
    """Module by module: each may be the only one that somebody follows."""
    ours = optimize(small(), kernel=reference)
    given = arguments(ours)
    right = ours(**given).sample
    for name, module in ours.named_modules():
        kept, calls = [], []

        def keep(_, positional, named, out, kept=kept, calls=calls):
            calls.append(1)
            seen = [*positional, *named.values()] if side == "given" else out if isinstance(out, tuple) else [out]
            kept.extend((t, t.clone()) for t in seen if isinstance(t, torch.Tensor))

        hook = module.register_forward_hook(keep, with_kwargs=True)
        assert_near(ours(**given).sample, right)
        hook.remove()
        assert calls or isinstance(module, torch.nn.ModuleList), f"{name} was not called"
        for now, then in kept:
            assert torch.equal(now, then), f"{name}: what its hook kept was written over"


def test_an_attention_hook_sees_every_call():
    ours = optimize(small(), kernel=reference)
    calls = []
    for block in ours.transformer_blocks:
        block.attn1.register_forward_hook(lambda *_: calls.append(1))
        block.norm2.register_forward_hook(lambda *_: calls.append(2))
        block.ff.register_forward_hook(lambda *_: calls.append(3))
    ours.norm_out.register_forward_hook(lambda *_: calls.append(4))
    right = restore(twin(ours))(**arguments(ours)).sample
    calls.clear()
    assert_near(ours(**arguments(ours)).sample, right)
    assert calls == [1, 2, 3, 1, 2, 3, 4]


def test_gradient_checkpointing_needs_gradients():
    ours = optimize(small(), kernel=reference)
    ours.enable_gradient_checkpointing()
    right = restore(twin(ours))(**arguments(ours)).sample
    assert_near(ours(**arguments(ours)).sample, right)
    with torch.enable_grad(), pytest.raises(OptimizeError, match="gradients are wanted"):
        ours(**arguments(ours))


def test_fused_projections():
    model, ours = both(lambda m: m.fuse_qkv_projections(), True)
    assert_near(ours(**arguments(model)).sample, model(**arguments(model)).sample)
