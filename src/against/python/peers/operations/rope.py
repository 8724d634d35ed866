"""Rotary embedding of the halves of each head, as transformers' Llama and Qwen have it, alone and after their norm per head."""

from ..library import Skip
from ..peer_modules import imported
from .adapter import Adapter, Peer, rounded, wide

THETA = 1e6


class Rope(Adapter):
    """q and k [batch, tokens, heads, head_dim] with cos and sin [tokens, ...]: the first `rotary_dim` of a head are rotated,
    element i with element rotary_dim / 2 + i."""

    names = ("rope", "rope_in_place")
    rounds = 3.0
    normed = False

    def __init__(self, case):
        super().__init__(case)
        self.outputs = tuple(name for name, spec in case.tensors.items() if spec.role in ("output", "inout"))
        self.inputs = [name for name in ("q", "k") if self.has(name)]
        if len(self.outputs) not in (1, 2) or len(self.inputs) != len(self.outputs) or not (self.has("cos") and self.has("sin")):
            raise Skip("tensors are not q, k, cos, sin and as many outputs")
        self.head_dim = case.tensors[self.inputs[0]].shape[-1]
        self.rotary = int(self.value("rotary_dim", default=float(self.head_dim)))
        self.half = self.rotary // 2
        self.sign = -1.0 if self.value("inverse", default=0.0) else 1.0
        self.eps = self.value("eps", default=1e-6)
        self.offset, self.round_first = self.value("weight_offset", default=0.0), self.value("round_first", default=0.0)

    def fill(self, tensors):
        """Tables of consecutive positions, as the models make them."""
        import torch

        if not self.rotary:
            return
        for name, function in (("cos", torch.cos), ("sin", torch.sin)):
            table = tensors[name]
            device = table.device
            frequency = 1.0 / THETA ** (torch.arange(0, self.rotary, 2, device=device).double() / self.rotary)
            angle = torch.arange(table.shape[-2], device=device).double()[:, None] * frequency
            angle = torch.cat([angle, angle], -1)[:, : table.shape[-1]]
            table.copy_(function(angle.float()).expand(table.shape))

    def norm_of(self, x, name, t):
        import torch

        if not self.normed:
            return x
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        norm = rounded(x * scale, t[self.inputs[0]].dtype) if self.round_first else x * scale
        weight = next((t[key] for key in (f"{name}_weight", f"{name}_norm_weight", f"weight_{name}") if key in t), None)
        return norm if weight is None else norm * (wide(weight) + self.offset)

    def table(self, t, name):
        """The half of a table that is used, for [batch, tokens, heads, half], in fp64."""
        table = wide(t[name])[..., : self.half]
        return table[..., None, :] if table.dim() > 2 else table[None, :, None, :]

    def reference(self, t):
        import torch

        found = {}
        cos, sin = self.table(t, "cos"), self.table(t, "sin") * self.sign
        for name, output in zip(self.inputs, self.outputs, strict=True):
            x = self.norm_of(wide(t[name]), name, t)
            one, two, rest = x[..., : self.half], x[..., self.half : self.rotary], x[..., self.rotary :]
            found[output] = torch.cat([one * cos - two * sin, two * cos + one * sin, rest], -1)
        return found

    def weights(self, t):
        keys = [[key for key in (f"{name}_weight", f"{name}_norm_weight", f"weight_{name}") if key in t] for name in self.inputs]
        return [t[found[0]] if found else None for found in keys]

    def full_tables(self, t):
        """cos and sin [batch, tokens, rotary_dim] in q's type, as the model passes them."""
        import torch

        made = []
        for name in ("cos", "sin"):
            table = t[name] if t[name].dim() > 2 else t[name][None]
            half = table[..., : self.half].to(t[self.inputs[0]].dtype)
            made.append(torch.cat([half, half], -1).contiguous())
        return made

    def given(self, t):
        return (*self.full_tables(t), *[t[name] for name in self.inputs], *(self.weights(t) if self.normed else []))

    def formulas(self):
        import torch

        eps, offset, half, rotary, normed, sign, count = (
            self.eps, self.offset, self.half, self.rotary, self.normed, self.sign, len(self.inputs)
        )
        whole = rotary == self.head_dim

        def rotate_half(x):
            return torch.cat((-x[..., half:], x[..., :half]), -1)

        def norm(x, weight):
            wide_x = x.float()
            wide_x = wide_x * torch.rsqrt(wide_x.pow(2).mean(-1, keepdim=True) + eps)
            if weight is None:
                return wide_x.to(x.dtype)
            return (weight + offset if offset else weight) * wide_x.to(x.dtype)

        def plain(cos, sin, *given):
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1) * sign if sign < 0 else sin.unsqueeze(1)
            outputs = []
            for at, x in enumerate(given[:count]):
                x = (norm(x, given[count + at]) if normed else x).transpose(1, 2)
                turned = x if whole else x[..., :rotary]
                turned = turned * cos + rotate_half(turned) * sin
                outputs.append((turned if whole else torch.cat([turned, x[..., rotary:]], -1)).transpose(1, 2))
            return tuple(outputs)

        return {"plain": plain}

    def liger(self, _):
        """It rotates in place."""
        if self.normed:
            raise Skip("Liger has no norm and rotation in one")
        if self.sign < 0 or len(self.inputs) != 2:
            raise Skip("only q and k, and forward")
        rope_forward = imported("liger_kernel.ops.rope", "liger-kernel").rope_forward

        def prepare(t):
            # With contiguous inputs, the transposed views have the layout that it would otherwise have to make.
            return (*[t[name].contiguous() for name in self.inputs], *self.full_tables(t))

        def call(given):
            q, k, cos, sin = given
            q, k, _, _ = rope_forward(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
            return q.transpose(1, 2), k.transpose(1, 2)

        return Peer(prepare, call, inplace=True)


class QkNormRope(Rope):
    """RMSNorm of each head, then the rotation."""

    names = ("qk_norm_rope", "qk_norm_rope_in_place")
    normed = True

    def compiled(self):
        return {"compile": ["plain"], "compile-max": ["plain"]}


ADAPTERS = [Rope, QkNormRope]
