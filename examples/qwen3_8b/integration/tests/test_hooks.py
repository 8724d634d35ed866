"""accelerate's hooks: those that move tensors between devices and bring offloaded weights in, whoever comes first."""

import pytest
import reference
import torch
from qwen3_kernels import is_optimized, optimize, restore
from support import FAMILIES, counting, model, tokens, twin

accelerate = pytest.importorskip("accelerate")
from accelerate.hooks import AlignDevicesHook, add_hook_to_module, remove_hook_from_module  # noqa: E402


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
    optimize(ours, kernel=reference)
    remove_hook_from_module(ours, recurse=True)
    close(logits(ours), logits(stock))
    restore(ours)
    assert not is_optimized(ours)
    assert torch.equal(logits(ours), logits(stock))
    optimize(ours, kernel=reference)
    close(logits(ours), logits(stock))


def test_a_hook_of_ones_own_sees_what_the_stock_layer_gives():
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    seen = []
    for one in (ours, stock):
        one.model.layers[1].register_forward_hook(lambda m, a, output: seen.append(output))
        one.model.layers[0].self_attn.q_norm.register_forward_hook(lambda m, a, output: seen.append(output))
        with torch.no_grad():
            one(tokens())
    assert len(seen) == 4
    close(seen[0], seen[2])
    close(seen[1], seen[3])
