"""Gradients, against the stock model's."""

import pytest
import reference
import torch
from qwen3_kernels import optimize
from support import FAMILIES, counting, model, tokens, twin


def trained(one):
    ids = tokens()
    one.train()
    loss = one(ids, labels=ids).loss
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in one.named_parameters()}


def same(one, other, **kwargs):
    (loss, mine), (stock_loss, theirs) = trained(one), trained(other)
    torch.testing.assert_close(loss, stock_loss, **kwargs)
    assert mine.keys() == theirs.keys() and all(g is not None for g in mine.values())
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], msg=lambda m, name=name: f"{name}: {m}", **kwargs)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_gradient(family):
    stock = model(family, attention="eager")
    kernel = counting(reference)
    same(optimize(twin(stock), kernel=kernel), stock, rtol=1e-4, atol=1e-5)
    # The fused q/k-norm with rope has no gradient; two norms and a rope replace it.
    assert not kernel.calls["qk_norm_rope"] and kernel.calls["rope"] == 3


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("family", ["qwen3", "gemma2"])
def test_gradient_checkpointing(family, reentrant):
    stock = model(family)
    ours = optimize(twin(stock), kernel=reference)
    for one in (ours, stock):
        one.gradient_checkpointing_enable({"use_reentrant": reentrant})
        one.enable_input_require_grads()
    same(ours, stock, rtol=1e-4, atol=1e-5)


def test_frozen_weights_and_a_trained_input():
    stock = model()
    ours = optimize(twin(stock), kernel=reference)
    grads = []
    for one in (ours, stock):
        one.requires_grad_(False)
        embeddings = torch.randn(2, 5, 48, generator=torch.Generator().manual_seed(5)).requires_grad_()
        one(inputs_embeds=embeddings).logits.square().sum().backward()
        grads.append(embeddings.grad)
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)


def test_without_gradients_qk_norm_rope_is_used_in_training_mode_too():
    kernel = counting(reference)
    ours = optimize(model(), kernel=kernel).train()
    with torch.no_grad():
        ours(tokens())
    assert kernel.calls["qk_norm_rope"] == 3 and not kernel.calls["rope"]
