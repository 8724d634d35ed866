"""Adaptive layer norm: LayerNorm, norm and modulation, gated residual, and both in one pass. As in diffusers' LTX-Video: the
modulation is one row for every `rows_per_modulation` rows, perhaps with a table of the layer's own added to it."""

from ..library import Skip
from ..peer_modules import blog_function, imported, stream
from .adapter import Adapter, Peer, rows_of, wide


class Modulated(Adapter):
    """What the family shares: rows in groups that have one row of modulation each."""

    rounds = 3.0

    def __init__(self, case):
        super().__init__(case)
        self.rows, self.width = int(self.value("rows")), int(self.value("width"))
        self.each = max(1, int(self.value("rows_per_modulation", default=float(max(self.rows, 1)))))
        self.eps, self.layer = self.value("eps", default=0.0), int(self.value("norm", default=0.0))
        self.groups = -(-self.rows // self.each)

    def grouped(self):
        """Raises Skip unless all groups have the same number of rows, as peers need."""
        if self.rows % self.each:
            raise Skip("the last group has fewer rows")

    # fp64, a row of modulation for each row.

    def spread(self, t, name):
        """`name` with its table for every row, in fp64; None where there is none."""
        import torch

        if name not in t:
            return None
        rows = wide(rows_of(t[name]))
        if f"{name}_table" in t:
            rows = rows + wide(t[f"{name}_table"])
        return rows[torch.arange(self.rows, device=rows.device) // self.each]

    def normed(self, x, t):
        import torch

        if self.layer:
            x = x - x.mean(-1, keepdim=True)
        norm = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        norm = norm * wide(t["weight"]) if "weight" in t else norm
        norm = norm + wide(t["bias"]) if "bias" in t else norm
        scale, shift = self.spread(t, "scale"), self.spread(t, "shift")
        norm = norm if scale is None else norm * (1 + scale)
        return norm if shift is None else norm + shift

    def gated(self, t):
        x, gate = wide(t["x"]), self.spread(t, "gate")
        return wide(t["h"]) + (x if gate is None else x * gate)

    # As a model writes it: batch x tokens x width, and batch x 1 x width.

    def batched(self, tensor):
        return tensor.view(self.groups, self.each, self.width)

    def modulation(self, t, name):
        """The rows of `name` and its table, as they stand in the model."""
        if name not in t:
            return None, None
        return rows_of(t[name])[:, None, :], t.get(f"{name}_table")

    def norm(self):
        """norm(x) as the model's module computes it, and its modulation."""
        import torch

        eps, layer, width = self.eps, self.layer, self.width

        def normalize(x, weight, bias):
            if layer:
                return torch.nn.functional.layer_norm(x, (width,), weight, bias, eps)
            norm = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
            norm = norm.to(x.dtype)
            norm = norm if weight is None else norm * weight
            return norm if bias is None else norm + bias

        def modulate(x, weight, bias, scale, scale_table, shift, shift_table):
            norm = normalize(x, weight, bias)
            if scale is not None:
                norm = norm * (1 + (scale if scale_table is None else scale_table + scale))
            if shift is not None:
                norm = norm + (shift if shift_table is None else shift_table + shift)
            return norm

        return modulate

    def summed(self, t, name):
        """The modulation's rows as other kernels want them: contiguous, the table added."""
        import torch

        rows = rows_of(t[name]) if name in t else torch.zeros(self.groups, self.width, dtype=t["x"].dtype, device=t["x"].device)
        return (rows + t[f"{name}_table"] if f"{name}_table" in t else rows).contiguous()

    def ones(self, t, name, value):
        """A weight or bias for kernels that require one."""
        import torch

        return t[name] if name in t else torch.full((self.width,), value, dtype=t["x"].dtype, device=t["x"].device)


class LayerNorm(Modulated):
    """(x - mean) / sqrt(variance + eps) * weight + bias."""

    names = ("layer_norm",)
    rounds = 1.0
    eager = "fused"

    def __init__(self, case):
        super().__init__(case)
        self.layer = 1

    def reference(self, t):
        return {"out": self.normed(wide(t["x"]), t)}

    def given(self, t):
        return t["x"], t.get("weight"), t.get("bias")

    def formulas(self):
        import torch

        eps, width = self.eps, self.width

        def fused(x, weight, bias):
            return (torch.nn.functional.layer_norm(x, (width,), weight, bias, eps),)

        return {"fused": fused}

    def liger(self, _):
        function = imported("liger_kernel.ops.layer_norm", "liger-kernel").LigerLayerNormFunction.apply
        prepare = lambda t: (t["x"], self.ones(t, "weight", 1.0), self.ones(t, "bias", 0.0))  # noqa: E731
        return Peer(prepare, lambda given: (function(*given, self.eps),))


class Adaln(Modulated):
    """norm(x) * (1 + scale) + shift."""

    names = ("adaln",)

    def reference(self, t):
        return {"out": self.normed(wide(t["x"]), t)}

    def given(self, t):
        self.grouped()
        return self.batched(t["x"]), t.get("weight"), t.get("bias"), *self.modulation(t, "scale"), *self.modulation(t, "shift")

    def formulas(self):
        modulate = self.norm()
        return {"plain": lambda *given: (modulate(*given),)}

    def liger(self, _):
        self.grouped()
        if self.layer or self.has("bias"):
            raise Skip("Liger modulates RMSNorm without bias alone")
        function = imported("liger_kernel.ops.modulated_rms_norm", "liger-kernel").LigerModulatedRMSNormFunction.apply
        prepare = lambda t: (t["x"], t.get("weight"), self.summed(t, "scale"), self.summed(t, "shift"))  # noqa: E731
        return Peer(prepare, lambda given: (function(*given, self.eps, 0.0, "gemma", False),))

    def blog(self, args):
        import torch

        self.grouped()
        if not self.layer and self.has("bias"):
            raise Skip("the blog's RMSNorm has no bias")
        name = "adaln_layernorm_forward_bf16" if self.layer else "adaln_rmsnorm_forward_bf16"
        launch = blog_function(args.blog, name, ("pppppp" if self.layer else "ppppp") + " iii f")

        def prepare(t):
            bias = (self.ones(t, "bias", 0.0),) if self.layer else ()
            x = t["x"].contiguous()
            return torch.empty_like(x), x, self.ones(t, "weight", 1.0), *bias, self.summed(t, "scale"), self.summed(t, "shift")

        def call(given):
            launch(*[tensor.data_ptr() for tensor in given], self.groups, self.each, self.width, self.eps, stream())
            return (given[0],)

        return Peer(prepare, call, allocates=False)


class GateResidual(Modulated):
    """h + x * gate."""

    names = ("gate_residual", "gate_residual_in_place")

    def __init__(self, case):
        super().__init__(case)
        self.outputs = ("out",) if self.has("out") else ("h",)

    def reference(self, t):
        return {self.outputs[0]: self.gated(t)}

    def given(self, t):
        self.grouped()
        return self.batched(t["h"]), self.batched(t["x"]), *self.modulation(t, "gate")

    def formulas(self):
        def plain(h, x, gate, table):
            if gate is None:
                return (h + x,)
            return (h + x * (gate if table is None else table + gate),)

        return {"plain": plain}


class GateResidualAdaln(Modulated):
    """sum = h + x * gate, rounded; out = norm(sum) * (1 + scale) + shift."""

    names = ("gate_residual_adaln", "gate_residual_adaln_in_place")

    def __init__(self, case):
        super().__init__(case)
        self.outputs = ("sum" if self.has("sum") else "h", "out")

    def reference(self, t):
        total = self.gated(t)
        return {self.outputs[0]: total, "out": self.normed(total, t)}

    def given(self, t):
        self.grouped()
        return (
            self.batched(t["h"]), self.batched(t["x"]), *self.modulation(t, "gate"),
            t.get("weight"), t.get("bias"), *self.modulation(t, "scale"), *self.modulation(t, "shift"),
        )

    def formulas(self):
        modulate = self.norm()

        def plain(h, x, gate, gate_table, *rest):
            if gate is not None:
                x = x * (gate if gate_table is None else gate_table + gate)
            total = h + x
            return total, modulate(total, *rest)

        return {"plain": plain}


ADAPTERS = [LayerNorm, Adaln, GateResidual, GateResidualAdaln]
