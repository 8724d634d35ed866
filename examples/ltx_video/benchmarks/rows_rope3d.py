"""The family rope3d's rows of benchmark.py."""

import math

import torch
import torch.nn.functional as F
from benchmark import Row

SCALE = (8 / 25, 32, 32)


def coords_of(frames, height, width, device):
    """The model's coordinates, by axis."""
    axes = [torch.arange(size, dtype=torch.float32, device=device) for size in (frames, height, width)]
    return [axis * scale / base for axis, scale, base in zip(axes, SCALE, (20, 2048, 2048))]


def angles_of(coords, dim):
    frequencies = 10000.0 ** torch.linspace(0.0, 1.0, dim // 6, device=coords.device) * math.pi / 2.0
    return frequencies * (coords[..., None] * 2 - 1)


def shared(frames, height, width, dim):
    """cos and sin of every token and element, as diffusers' LTXVideoRotaryPosEmbed makes them."""

    def make(draw):
        grid = torch.stack(torch.meshgrid(*coords_of(frames, height, width, draw.device), indexing="ij"), dim=-1)
        angles = angles_of(grid.flatten(0, 2), dim).transpose(-1, -2).flatten(1).repeat_interleave(2, dim=-1)[None]
        pad = (dim % 6, 0)
        return {"cos": F.pad(angles.cos(), pad, value=1.0), "sin": F.pad(angles.sin(), pad)}

    return make


def table_of(frames, height, width, dim, device):
    angles = torch.cat([angles_of(axis, dim) for axis in coords_of(frames, height, width, device)])
    return torch.stack([F.pad(angles.cos(), (1, 0), value=1.0), F.pad(angles.sin(), (1, 0))], dim=-1)[None]


def rotate(x, cos, sin):
    # diffusers' apply_rotary_emb of LTX-Video
    real, imaginary = x.unflatten(2, (-1, 2)).unbind(-1)
    turned = torch.stack([-imaginary, real], dim=-1).flatten(2)
    return (x.float() * cos + turned.float() * sin).to(x.dtype)


def eager_rope3d(q, k, table, cos, sin):
    return rotate(q, cos, sin), rotate(k, cos, sin)


def eager_normed(q, k, q_weight, k_weight, table, cos, sin):
    q = F.rms_norm(q, (q.shape[-1],), q_weight, 1e-5)
    k = F.rms_norm(k, (k.shape[-1],), k_weight, 1e-5)
    return rotate(q, cos, sin), rotate(k, cos, sin)


def make(batch, video, dim, weights):
    def arguments(draw):
        tokens = math.prod(video)
        given = {"q": draw(batch, tokens, dim), "k": draw(batch, tokens, dim)}
        given |= {"q_weight": draw(dim), "k_weight": draw(dim)} if weights else {}
        return given | {"table": table_of(*video, dim, draw.device)}

    return arguments


def rope3d(name, batch, *video, dim=2048):
    return Row(
        f"rope3d, LTX-Video, {name}",
        make(batch, video, dim, False),
        lambda kernel, q, k, table: kernel.rope3d(q, k, table, *video),
        eager_rope3d,
        shared(*video, dim),
    )


def qk_norm_rope3d(name, batch, *video, dim=2048):
    return Row(
        f"qk_norm_rope3d, LTX-Video, {name}",
        make(batch, video, dim, True),
        lambda kernel, q, k, q_weight, k_weight, table: kernel.qk_norm_rope3d(
            q, k, q_weight, k_weight, table, *video, round_first=True
        ),
        eager_normed,
        shared(*video, dim),
    )


ROWS = [
    rope3d("49 frames", 1, 7, 16, 24),
    rope3d("161 frames, batch 2", 2, 21, 16, 24),
    qk_norm_rope3d("49 frames", 1, 7, 16, 24),
    qk_norm_rope3d("49 frames, batch 2", 2, 7, 16, 24),
    qk_norm_rope3d("161 frames, batch 2", 2, 21, 16, 24),
]
