"""LTX-Video's rotary embedding over frames, rows and columns, alone and after the norms of q and k; and its table."""

import math

from ..library import Skip
from ..peer_modules import blog_function, stream
from .adapter import Adapter, Peer, rounded, wide

# The model: 32 heads; theta 10,000; a frame is 8 of 25 a second over 20, a row or column 32 pixels over 2048.
HEADS, THETA = 32, 10000.0
SCALES = (8 / 25 / 20, 32 / 2048, 32 / 2048)


def frequencies(count, device):
    """The model's frequencies, computed in fp32 as in the model, with the power rounded once; on the CPU, so that the result is
    the same on every machine."""
    import torch

    powers = torch.linspace(math.log(1.0, THETA), math.log(THETA, THETA), count, dtype=torch.float32)
    return ((THETA ** powers.double()).float() * math.pi / 2.0).to(device)


def table_of(coords, of):
    """Interleaved cos and sin [..., positions, 2 * (1 + frequencies)], with (1, 0) first. The angle is fp32 as in the model,
    the rest fp64."""
    import torch

    angle = (of * (coords.float().unsqueeze(-1) * 2 - 1)).double()
    angle = torch.cat([angle.new_zeros(*angle.shape[:-1], 1), angle], -1)
    return torch.stack([angle.cos(), angle.sin()], -1).flatten(-2)


class Rope3d(Adapter):
    """Tokens in the order batch, frame, row, column. `table` [tables, frames + height + width, 2 * (1 + dim / 6)] holds what
    the model has as cos and sin [batch, tokens, dim]; pair 3 * frequency + axis of a token, behind those that are not rotated."""

    names = ("rope3d", "rope3d_in_place")
    rounds = 3.0
    normed = False

    def __init__(self, case):
        super().__init__(case)
        self.batch, self.frames, self.height, self.width, self.dim = (
            int(self.value(name)) for name in ("batch", "frames", "height", "width", "dim")
        )
        self.tokens = self.frames * self.height * self.width
        self.sign = -1.0 if self.value("inverse", default=0.0) else 1.0
        self.eps, self.round_first = self.value("eps", default=1e-5), self.value("round_first", default=0.0)
        self.inputs = [name for name in ("q", "k") if self.has(name)]
        self.outputs = tuple(f"{name}_out" if self.has(f"{name}_out") else name for name in self.inputs)
        if not self.inputs or not self.has("table"):
            raise Skip("tensors are not q, k and table")

    def fill(self, tensors):
        import torch

        table = tensors["table"]
        coords = torch.cat(
            [
                torch.arange(size, device=table.device, dtype=torch.float32) * scale
                for size, scale in zip((self.frames, self.height, self.width), SCALES, strict=True)
            ]
        )
        table.copy_(table_of(coords, frequencies(self.dim // 6, table.device)).to(table.dtype).expand(table.shape))

    def full(self, t):
        """cos and sin of every pair of every token, [tables, tokens, dim / 2]."""
        import torch

        table = t["table"]
        table = table.reshape(-1, self.frames + self.height + self.width, table.shape[-1] // 2, 2)
        device, tables = table.device, table.shape[0]
        token = torch.arange(self.tokens, device=device)
        place = torch.stack(
            [
                token // (self.height * self.width),
                self.frames + token // self.width % self.height,
                self.frames + self.height + token % self.width,
            ]
        )
        turns = table[:, place, 1:]  # tables, axis, token, frequency, 2
        turns = turns.permute(0, 2, 3, 1, 4).reshape(tables, self.tokens, -1, 2)  # pair 3 * frequency + axis
        still = table[:, :1, :1].expand(tables, self.tokens, self.dim // 2 - turns.shape[2], 2)
        whole = torch.cat([still, turns], 2)
        return whole[..., 0], whole[..., 1]

    def tokens_of(self, tensor):
        """[batch, tokens, dim], a view where that is possible."""
        return tensor.reshape(self.batch, self.tokens, self.dim)

    def norm_of(self, x, name, t):
        import torch

        if not self.normed:
            return x
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        x = x * wide(t[f"{name}_weight"]) if f"{name}_weight" in t else x
        return rounded(x, t[name].dtype) if self.round_first else x

    def reference(self, t):
        import torch

        cos, sin = (wide(part) for part in self.full(t))
        found = {}
        for name, output in zip(self.inputs, self.outputs, strict=True):
            x = self.norm_of(wide(self.tokens_of(t[name])), name, t)
            one, two = x[..., 0::2], x[..., 1::2]
            turned = torch.stack([one * cos - two * sin * self.sign, two * cos + one * sin * self.sign], -1)
            found[output] = turned.flatten(-2).reshape(t[name].shape)
        return found

    def given(self, t):
        """The model's own: cos and sin in fp32, [batch, tokens, dim]."""
        tables = [
            part.float().repeat_interleave(2, -1).expand(self.batch, -1, -1).contiguous() * sign
            for part, sign in zip(self.full(t), (1.0, self.sign), strict=True)
        ]
        weights = [t.get(f"{name}_weight") for name in self.inputs] if self.normed else []
        return (*tables, *[self.tokens_of(t[name]) for name in self.inputs], *weights)

    def formulas(self):
        import torch

        count, normed, dim, eps = len(self.inputs), self.normed, self.dim, self.eps

        def rotated(x, cos, sin):
            real, imaginary = x.unflatten(2, (-1, 2)).unbind(-1)
            turned = torch.stack([-imaginary, real], dim=-1).flatten(2)
            return (x.float() * cos + turned.float() * sin).to(x.dtype)

        def plain(cos, sin, *given):
            outputs = []
            for at, x in enumerate(given[:count]):
                if normed:
                    x = torch.nn.functional.rms_norm(x, (dim,), given[count + at], eps)
                outputs.append(rotated(x, cos, sin))
            return tuple(outputs)

        return {"plain": plain}

    def blog(self, args):
        if self.normed or len(self.inputs) != 2 or self.dim % HEADS:
            raise Skip("the blog rotates q and k alone, by heads")
        launch = blog_function(args.blog, "rope_3d_forward_bf16", "pp iiiiii f")

        def prepare(t):
            return tuple(t[name].contiguous() for name in self.inputs)

        def call(given):
            q, k = given
            sizes = self.batch, self.frames, self.height, self.width, HEADS, self.dim // HEADS
            launch(q.data_ptr(), k.data_ptr(), *sizes, THETA, stream())
            return given

        def holds(t, outputs):
            """Checks that each pair keeps its length and is rotated."""
            for name, output in zip(self.inputs, outputs, strict=True):
                before, after = (wide(x).reshape(-1, 2) for x in (t[name], output))
                lengths = [x.norm(dim=-1) for x in (before, after)]
                apart = ((lengths[0] - lengths[1]).norm() / lengths[0].norm()).item()
                if not apart <= 1.2e-2:
                    return f"pairs' lengths differ by {apart:.2e}: no rotation"
                if self.tokens > 1 and ((before - after).norm() / before.norm()).item() < 0.1:
                    return "nothing was rotated"
            return None

        other = "rotates by whole positions and other frequencies, head by head"
        return Peer(prepare, call, allocates=False, inplace=True, other=other, holds=holds)


class QkNormRope3d(Rope3d):
    """RMSNorm across the heads first."""

    names = ("qk_norm_rope3d", "qk_norm_rope3d_in_place")
    normed = True

    def compiled(self):
        return {"compile": ["plain"], "compile-max": ["plain"]}


class Rope3dTable(Adapter):
    """The table, computed from coordinates."""

    names = ("rope3d_table",)
    outputs = ("table",)
    # The power may differ by one unit in the last place, which at 15,700 rad is 1e-3 rad.
    own_rounds = 100.0
    exact = 1e-3

    def fill(self, tensors):
        coords = tensors["coords"]
        coords.copy_(coords.abs() * 0.25)
        if "frequencies" in tensors:
            tensors["frequencies"].copy_(frequencies(tensors["frequencies"].shape[-1], coords.device))

    def reference(self, t):
        count = self.case.tensors["table"].shape[-1] // 2 - 1
        of = t["frequencies"] if "frequencies" in t else frequencies(count, t["coords"].device)
        return {"table": table_of(t["coords"], of)}

    def formulas(self):
        return {}


ADAPTERS = [Rope3d, QkNormRope3d, Rope3dTable]
