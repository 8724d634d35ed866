"""What is the family rope3d's own: the table, layouts, what is refused, and the model itself."""

import pytest
import torch
from cases_rope3d import rotate, table_of
from support import ANYWHERE, DEVICE, DTYPES, Draw, assert_near, needs_card


@pytest.mark.parametrize("device", ANYWHERE)
def test_what_is_wrong_is_named(kernel, device):
    draw = Draw(device, torch.float16)
    q, k, weight = draw(2, 24, 64), draw(2, 24, 64), draw(64)
    table = draw(1, 9, 11, 2, dtype=torch.float32)
    # [of rope3d qk_norm_rope3d]
    rope3d, both = kernel.rope3d, kernel.qk_norm_rope3d
    # [else]
    # [of rope3d]
    rope3d = kernel.rope3d
    # [end of]
    # [of qk_norm_rope3d]
    both = kernel.qk_norm_rope3d
    # [end of]
    # [end of]
    for call, message in [
        (
            lambda: rope3d(q.double(), k, table, 2, 3, 4),
            "rope3d: q must be float32, float16 or bfloat16, but is Double",
        ),
        (lambda: rope3d(q[0, 0], k, table, 2, 3, 4), r"rope3d: q must be \[batch, tokens, dim\] or \[tokens, dim\]"),
        (lambda: rope3d(q, k[:, :, :62], table, 2, 3, 4), r"rope3d: k must have q's shape, \[2, 24, 64\]"),
        (
            lambda: rope3d(q, k, table, 2, 3, 5),
            r"rope3d: q must have frames \* height \* width tokens, 2 \* 3 \* 5, .* 24",
        ),
        (lambda: rope3d(q, k, table, -2, -3, 4), "rope3d: frames, height and width must not be negative"),
        (lambda: rope3d(q[..., :63], None, table, 2, 3, 4), "rope3d: .* dim must be even, but they are 2, 3, 4 and 63"),
        (
            lambda: rope3d(q, k, table[:, 1:], 2, 3, 4),
            r"rope3d: table must be a contiguous float32 \[2 or 1, 9, 11, 2\]",
        ),
        (lambda: rope3d(q, k, table.half(), 2, 3, 4), r"rope3d: table must be a contiguous float32"),
        (lambda: rope3d(q, k, table.expand(3, -1, -1, -1), 2, 3, 4), r"rope3d: table must be a contiguous float32"),
        (
            lambda: kernel.rope3d_(q.transpose(0, 1), k, table, 2, 3, 4),
            "rope3d_: q must have rows of side-by-side elements",
        ),
        # [of qk_norm_rope3d]
        (lambda: both(q, k, weight[1:], None, table, 2, 3, 4), r"qk_norm_rope3d: q_weight must be \[64\]"),
        # [end of]
        (
            lambda: kernel.rope3d_table(draw(9), 64),
            r"rope3d_table: coords must be a contiguous float32 \[tables, frames",
        ),
        (
            lambda: kernel.rope3d_table(table[0, :, :, 0].contiguous(), 63),
            "rope3d_table: dim must be even .* but is 63",
        ),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call()


def test_tensors_on_no_card_are_named(kernel):
    with pytest.raises(RuntimeError, match="rope3d_table: coords must be on a CUDA device"):
        kernel.rope3d_table(torch.ones(1, 9), 64)
    with pytest.raises(RuntimeError, match="rope3d: q must be on a CUDA device"):
        kernel.rope3d(torch.ones(1, 24, 64), None, torch.ones(1, 9, 11, 2), 2, 3, 4)


def test_what_has_no_gradient_says_so(kernel):
    q, table = torch.ones(1, 24, 64, requires_grad=True), torch.ones(1, 9, 11, 2)
    for call in (
        lambda: kernel.rope3d_(q, None, table, 2, 3, 4),
        lambda: kernel.qk_norm_rope3d(q, None, None, None, table, 2, 3, 4),
        lambda: kernel.qk_norm_rope3d_(q, None, None, None, table, 2, 3, 4),
    ):
        with pytest.raises(RuntimeError, match="has no gradient; call it under torch.no_grad"):
            call()


def test_coordinates_are_the_model_s(kernel):
    ltx = pytest.importorskip("diffusers.models.transformers.transformer_ltx")
    module = ltx.LTXVideoRotaryPosEmbed(64)
    rates = torch.tensor([8 / 24, 8 / 25])
    for scale in (None, (8 / 25, 32, 32), (rates.view(2, 1, 1, 1, 1), 32, 32)):
        grid = module._prepare_video_coords(2, 3, 4, 5, scale, torch.device("cpu"))
        coords = kernel.rope3d_coords(3, 4, 5, scale)
        assert coords.shape == (2 if scale is not None and isinstance(scale[0], torch.Tensor) else 1, 12)
        by_axis = coords.expand(2, -1).split([3, 4, 5], dim=1)
        for axis, (positions, step) in enumerate(zip(by_axis, (20, 5, 1))):
            for position in range(positions.shape[1]):
                assert torch.equal(grid[:, position * step, axis], positions[:, position])


@needs_card
@pytest.mark.parametrize("dim", [2, 6, 64, 130, 2048, 4096])
def test_the_table(kernel, dim):
    coords = kernel.rope3d_coords(21, 16, 24, (8 / 25, 32, 32), torch.device(DEVICE))
    table = kernel.rope3d_table(coords, dim)
    assert table.shape == (1, 61, dim // 6 + 1, 2) and table.dtype == torch.float32
    # torch's float32 power of another machine may differ in its last place, and the angle by as much of 15,000 rad.
    assert (table.double() - table_of(coords, dim)).abs().max() < 4e-3
    given = torch.rand(dim // 6, device=DEVICE)
    angles = (given * (coords[..., None] * 2 - 1)).double()
    mine = kernel.rope3d_table(coords, dim, frequencies=given)
    assert_near(mine[:, :, 1:, 0], angles.cos())
    assert_near(mine[:, :, 1:, 1], angles.sin())


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(kernel, dtype):
    draw = Draw(DEVICE, dtype)
    table = table_of(draw(1, 9, dtype=torch.float32), 128).float()
    projected = draw(2, 24, 3 * 128)
    for q, k in (
        projected.split(128, dim=-1)[:2],
        (projected[..., 1:129], projected[..., 129:257]),
        (draw(24, 2, 128).transpose(0, 1), draw(2, 128, 24).transpose(1, 2)),
    ):
        for x, out in zip((q, k), kernel.rope3d(q, k, table, 2, 3, 4)):
            assert out.is_contiguous()
            assert_near(out, rotate(x.double(), table, 2, 3, 4))
        assert_near(kernel.rope3d(q[0], None, table, 2, 3, 4), rotate(q[:1].double(), table, 2, 3, 4)[0])
    before = projected.clone()
    kernel.rope3d_(*projected.split(128, dim=-1)[:2], table, 2, 3, 4)
    assert torch.equal(projected[..., 256:], before[..., 256:])
    assert_near(projected[..., :128], rotate(before[..., :128].double(), table, 2, 3, 4))


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_as_ltx_video_calls_them(kernel, dtype):
    """The q and k norms and the rotation of diffusers' own modules, at a width and a video of the model."""
    ltx = pytest.importorskip("diffusers.models.transformers.transformer_ltx")
    draw = Draw(DEVICE, dtype)
    frames, height, width, scale = 3, 4, 6, (8 / 25, 32, 32)
    q, k = draw(2, frames * height * width, 2048), draw(2, frames * height * width, 2048)
    norms = [torch.nn.RMSNorm(2048, eps=1e-5).to(DEVICE, dtype) for _ in range(2)]
    for module in norms:
        torch.nn.init.normal_(module.weight)
    embed = ltx.LTXVideoRotaryPosEmbed(2048)
    with torch.no_grad():
        cos, sin = embed(q, frames, height, width, scale)
        normed = [module(x) for module, x in zip(norms, (q, k))]
        right = [ltx.apply_rotary_emb(x, (cos, sin)) for x in normed]
        table = kernel.rope3d_table(kernel.rope3d_coords(frames, height, width, scale, q.device), 2048)
        apart = kernel.rope3d(*normed, table, frames, height, width)
        fused = kernel.qk_norm_rope3d(
            q, k, norms[0].weight, norms[1].weight, table, frames, height, width, round_first=True
        )
    for one, other in zip((*apart, *fused), (*right, *right)):
        # 1e-3 rad for angles of thousands of rad in float32, which the libraries round each in its way.
        assert (one.double() - other.double()).abs().max() <= (2e-3 + 2 * torch.finfo(dtype).eps) * other.abs().max()


@needs_card
def test_autograd_knows_what_was_written(kernel):
    draw = Draw(DEVICE, torch.float32)
    q, k, table = draw(1, 24, 64), draw(1, 24, 64), draw(1, 9, 11, 2)
    kernel.rope3d_(q, k, table, 2, 3, 4)
    kernel.qk_norm_rope3d_(q, None, None, None, table, 2, 3, 4)
    assert (q._version, k._version) == (2, 1)
