"""What is the family rope's own: layouts, what is refused, layers."""

import kernels
import pytest
import torch
from cases_rope import rotate
from support import ANYWHERE, DEVICE, DTYPES, Draw, assert_near, needs_card, validated


@pytest.mark.parametrize("device", ANYWHERE)
def test_what_is_wrong_is_named(kernel, device):
    draw = Draw(device, torch.float16)
    q, k, table, weight = draw(2, 6, 4, 64), draw(2, 6, 2, 64), draw(1, 6, 64), draw(64)
    rope, both = kernel.rope, kernel.qk_norm_rope
    for call, message in [
        (lambda: rope(q.double(), k, table, table), "rope: q must be float32, float16 or bfloat16, but is Double"),
        (
            lambda: rope(q[0, 0], k, table, table),
            r"rope: q must be \[batch, tokens, heads, head_dim\], or the same with",
        ),
        (lambda: rope(q, k.float(), table, table), "rope: k must be of q's dtype, but is Float"),
        (lambda: rope(q[:1], k[0], table, table), "rope: k must have q's 4 dimensions, but has 3"),
        (lambda: rope(q[0], k[:1], table, table), "rope: k must have q's 3 dimensions, but has 4"),
        (lambda: kernel.rope_(q[:1], k[0], table, table), "rope_: k must have q's 4 dimensions, but has 3"),
        (
            lambda: rope(q, k[:, :5], table, table),
            r"rope: k must have q's batch 2, tokens 6 and head_dim 64, .* 5 and 64",
        ),
        (
            lambda: rope(q, k, table[:, 1:], table[:, 1:]),
            r"cos and sin must be \[2 or 1, 6, at least 32\].*\[1, 5, 64\]",
        ),
        (lambda: rope(q, k, table[..., :31], table[..., :31]), r"cos and sin must be \[2 or 1, 6, at least 32\]"),
        (lambda: rope(q, k, table[0, 0], table[0, 0]), r"rope: cos and sin must be"),
        (lambda: rope(q, k, table, table[..., :32]), r"rope: sin must have cos's shape"),
        (lambda: rope(q, k, table, table.float()), "rope: sin must be of cos's dtype"),
        (lambda: rope(q, k, table.bfloat16(), table.bfloat16()), "rope: cos must be of q's dtype, but is BFloat16"),
        (
            lambda: rope(q, k, table[..., ::2], table[..., ::2]),
            "rope: cos and sin must have the same strides, the last one 1",
        ),
        (lambda: rope(q, k, table, table, 63), "rope: rotary_dim must be even and at most head_dim, 64, but is 63"),
        (lambda: rope(q, k, table, table, 66), "rope: rotary_dim must be even and at most head_dim, 64, but is 66"),
        (
            lambda: kernel.rope_(draw(2, 6, 64, 4).transpose(2, 3), k, table, table),
            "rope_: q must have the elements of a head",
        ),
        (lambda: both(q[:1], k[0], weight, weight, table, table), "qk_norm_rope: k must have q's 4 dimensions"),
        (lambda: both(q, k, weight[1:], weight, table, table), r"qk_norm_rope: q_weight must be \[64\]"),
        (lambda: both(q, k, weight, weight.float(), table, table), "qk_norm_rope: k_weight must be of q's dtype"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call()


def test_a_fake_refuses_k_of_other_dimensions(kernel):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q, table = torch.empty(1, 6, 4, 64), torch.empty(1, 6, 64)
        for call in (
            lambda k: kernel.rope(q, k, table, table),
            lambda k: kernel.qk_norm_rope(q, k, None, None, table, table),
        ):
            assert call(q[:, :, :2])[1].shape == (1, 6, 2, 64)
            with pytest.raises(RuntimeError, match="k must have q's 4 dimensions, but has 3"):
                call(q[0])


def test_tensors_on_no_card_are_named(kernel):
    q, table = torch.ones(1, 2, 3, 8), torch.ones(1, 2, 4)
    with pytest.raises(RuntimeError, match="rope: q must be on a CUDA device"):
        kernel.rope(q, None, table, table)


def test_what_has_no_gradient_says_so(kernel):
    q, table = torch.ones(1, 2, 3, 8, requires_grad=True), torch.ones(1, 2, 4)
    for call in (
        lambda: kernel.rope_(q, None, table, table),
        lambda: kernel.qk_norm_rope(q, None, None, None, table, table),
        lambda: kernel.qk_norm_rope_(q, None, None, None, table, table),
    ):
        with pytest.raises(RuntimeError, match="has no gradient; call it under torch.no_grad"):
            call()


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(kernel, dtype):
    """q and k as slices of one projection, of odd strides, without batch, and what must be copied."""
    draw = Draw(DEVICE, dtype)
    angle = draw(1, 7, 32, dtype=torch.float32)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    projected = draw(2, 7, (4 + 2 + 2) * 64)
    sliced = projected[..., : 4 * 64].view(2, 7, 4, 64), projected[..., 4 * 64 : 6 * 64].view(2, 7, 2, 64)
    odd = draw(2, 7, 4, 67)[..., 1:65], draw(2, 7, 2, 65)[..., :64]
    copied = draw(2, 7, 64, 4).transpose(2, 3), draw(64, 2, 7, 2).permute(1, 2, 3, 0)
    for q, k in (sliced, odd, copied):
        for x, out in zip((q, k), kernel.rope(q, k, cos, sin)):
            assert out.is_contiguous()
            assert_near(out, rotate(x.double(), cos.double(), sin.double(), 64))
        turned = kernel.rope(q.transpose(1, 2), k.transpose(1, 2), cos, sin, heads_first=True)
        for x, out in zip((q, k), turned):
            assert out.transpose(1, 2).is_contiguous()
            assert_near(out.transpose(1, 2), rotate(x.double(), cos.double(), sin.double(), 64))
        alone = kernel.rope(q[0], k[0], cos[0], sin[0])
        assert_near(alone[0], rotate(q[:1].double(), cos.double(), sin.double(), 64)[0])

    before = projected.clone()
    kernel.rope_(*sliced, cos, sin)
    assert torch.equal(projected[..., 6 * 64 :], before[..., 6 * 64 :])
    right = rotate(before[..., : 4 * 64].view(2, 7, 4, 64).double(), cos.double(), sin.double(), 64)
    assert_near(sliced[0], right)


@needs_card
def test_there_and_back(kernel):
    draw = Draw(DEVICE, torch.float32)
    q, k, angle = draw(2, 9, 4, 64), draw(2, 9, 2, 64), draw(1, 9, 32)
    there = kernel.rope(q, k, angle.cos(), angle.sin())
    for x, out in zip((q, k), kernel.rope(*there, angle.cos(), angle.sin(), inverse=True)):
        assert_near(out, x.double(), 4)


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_as_qwen3_calls_them(kernel, dtype):
    qwen3 = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    draw = Draw(DEVICE, dtype)
    q, k = draw(2, 5, 4, 128), draw(2, 5, 2, 128)
    angle = torch.cat([draw(2, 5, 64, dtype=torch.float32)] * 2, -1)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    norms = [qwen3.Qwen3RMSNorm(128).to(DEVICE, dtype) for _ in range(2)]
    for module in norms:
        torch.nn.init.normal_(module.weight)
    with torch.no_grad():
        normed = [module(x).transpose(1, 2) for module, x in zip(norms, (q, k))]
        function = getattr(qwen3.apply_rotary_pos_emb, "forward", qwen3.apply_rotary_pos_emb)
        right = function(*normed, cos, sin)
        apart = kernel.apply_rotary_pos_emb(*normed, cos, sin)
        fused = kernel.qk_norm_rope(
            q.transpose(1, 2), k.transpose(1, 2), norms[0].weight, norms[1].weight, cos, sin,
            round_first=True, heads_first=True,
        )  # fmt: skip
    for one, other in zip((*apart, *fused), (*right, *right)):
        # The model rounds both products before it adds them.
        assert_near(one, other.double(), 6, cancels=True)


def test_the_layer_stands_in_for_its_model_s(kernel):
    qwen3 = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    function = qwen3.apply_rotary_pos_emb
    if not isinstance(function, torch.nn.Module):  # where transformers was told to do without the Hub's kernels
        function = kernels.use_kernel_forward_from_hub("rotary_pos_emb")(function)
    validated(type(function), "ApplyRotaryPosEmb")


def test_the_layer_refuses_a_table_of_pairs(kernel):
    """gpt_oss's, under the same name of a layer."""
    q, k, table = torch.ones(1, 4, 5, 64), torch.ones(1, 2, 5, 64), torch.ones(1, 5, 32)
    with pytest.raises(ValueError, match="cos must have a column for each of the 64 elements of a head, .* but has 32"):
        kernel.layers.ApplyRotaryPosEmb()(q, k, table, table)


@needs_card
def test_the_layer(kernel):
    draw = Draw(DEVICE, torch.bfloat16)
    q, k, angle = draw(2, 4, 5, 128), draw(2, 2, 5, 128), draw(2, 5, 64, dtype=torch.float32)
    cos, sin = (torch.cat([f(angle)] * 2, -1).bfloat16() for f in (torch.cos, torch.sin))
    layer = kernel.layers.ApplyRotaryPosEmb()
    for out, x in zip(layer(q, k, cos, sin), (q, k)):
        right = rotate(x.transpose(1, 2).double(), cos.double(), sin.double(), 128)
        assert_near(out.transpose(1, 2), right)
    for out, x in zip(layer(q.transpose(1, 2), k.transpose(1, 2), cos, sin, unsqueeze_dim=2), (q, k)):
        assert_near(out, rotate(x.transpose(1, 2).double(), cos.double(), sin.double(), 128))


@needs_card
def test_autograd_knows_what_was_written(kernel):
    draw = Draw(DEVICE, torch.float32)
    q, k, table = draw(1, 6, 4, 64), draw(1, 6, 2, 64), draw(1, 6, 32)
    kernel.rope_(q, k, table, table)
    kernel.qk_norm_rope_(q, None, None, None, table, table)
    assert (q._version, k._version) == (2, 1)
