"""GEGLU and SwiGLU, of two tensors or one that holds both side by side, and their gradients."""

import math

from ..library import Skip
from ..peer_modules import blog_function, imported, stream
from .adapter import Adapter, Peer, wide


class Gated(Adapter):
    """out = value * f(gate). `halves(t)` answers (value, gate)."""

    rounds = 3.0
    backward = False

    def __init__(self, case):
        super().__init__(case)
        self.packed = self.has("x")
        self.gate_first, self.tanh = self.value("gate_first", default=0.0), self.value("tanh", default=0.0)
        self.silu = case.operation.name.startswith("swiglu")
        self.value_name = next((name for name in ("up", "value") if self.has(name)), "value")

    @property
    def kind(self):
        return "silu" if self.silu else "tanh" if self.tanh else "erf"

    def order(self, value, gate):
        """The two in the order in which the case has them."""
        return (gate, value) if self.gate_first else (value, gate)

    def halves(self, t):
        if not self.packed:
            return t[self.value_name], t["gate"]
        return self.order(*t["x"].chunk(2, -1))

    def activation(self):
        import torch

        functional = torch.nn.functional
        if self.silu:
            return functional.silu
        approximate = "tanh" if self.tanh else "none"
        return lambda gate: functional.gelu(gate, approximate=approximate)

    def reference(self, t):
        value, gate = (wide(half) for half in self.halves(t))
        return {"out": value * self.activation()(gate)}

    def given(self, t):
        return (t["x"],) if self.packed else (t[self.value_name], t["gate"])

    def split(self):
        """A function that makes (value, gate) from the formulas' tensors."""
        packed, order = self.packed, self.order

        def halves(*given):
            return order(*given[0].chunk(2, -1)) if packed else given

        return halves

    def formulas(self):
        activate, halves = self.activation(), self.split()

        def plain(*given):
            value, gate = halves(*given)
            return (value * activate(gate),)

        return {"plain": plain}

    def apart(self, t):
        """(gate, value), each contiguous: Liger's layout."""
        value, gate = self.halves(t)
        return gate.contiguous(), value.contiguous()

    def liger(self, _):
        if self.kind == "erf":
            raise Skip("Liger's GEGLU is that of tanh")
        module, name = ("swiglu", "LigerSiLUMulFunction") if self.silu else ("geglu", "LigerGELUMulFunction")
        function = getattr(imported(f"liger_kernel.ops.{module}", "liger-kernel"), name).apply
        return Peer(self.apart, lambda given: (function(*given),))

    def blog(self, args):
        """Its kernels take one tensor with the gate first, so one is made of both halves."""
        import torch

        name = {"silu": "swiglu_forward_bf16", "tanh": "geglu_forward_bf16", "erf": "geglu_exact_forward_bf16"}[self.kind]
        launch = blog_function(args.blog, name, "pp iii")

        def prepare(t):
            value, gate = self.halves(t)
            return torch.empty_like(value, memory_format=torch.contiguous_format), torch.cat([gate, value], -1)

        def call(given):
            out, x = given
            launch(out.data_ptr(), x.data_ptr(), 1, out.numel() // out.shape[-1], out.shape[-1], stream())
            return (out,)

        return Peer(prepare, call, allocates=False)


class GegluForward(Gated):
    names = ("geglu", "swiglu", "swiglu_packed")


class GatedBackward(Gated):
    """The gradients of value and gate, from that of out."""

    names = ("geglu_backward", "swiglu_backward", "swiglu_packed_backward")

    def __init__(self, case):
        super().__init__(case)
        self.gradients = next(
            (names for names in (("d_up", "d_gate"), ("d_value", "d_gate"), ("dup", "dgate")) if all(self.has(name) for name in names)), ()
        )
        self.outputs = ("dx",) if self.packed else self.gradients
        if not self.outputs:
            raise Skip("no gradients by the names known here")

    def derivative(self, gate):
        """f and its derivative, in the type of `gate`."""
        import torch

        if self.silu:
            s = torch.sigmoid(gate)
            return gate * s, s * (1 + gate * (1 - s))
        if self.tanh:
            root = math.sqrt(2 / math.pi)
            t = torch.tanh(root * (gate + 0.044715 * gate**3))
            return 0.5 * gate * (1 + t), 0.5 * (1 + t) + 0.5 * gate * (1 - t * t) * root * (1 + 3 * 0.044715 * gate * gate)
        phi = 0.5 * (1 + torch.erf(gate / math.sqrt(2)))
        return gate * phi, phi + gate * torch.exp(-0.5 * gate * gate) / math.sqrt(2 * math.pi)

    def pair(self, dy, value, gate):
        f, slope = self.derivative(gate)
        return dy * f, dy * value * slope

    def reference(self, t):
        import torch

        value, gate = (wide(half) for half in self.halves(t))
        found = self.pair(wide(t["dy"]), value, gate)
        return {"dx": torch.cat(self.order(*found), -1)} if self.packed else dict(zip(self.gradients, found, strict=True))

    def given(self, t):
        return t["dy"], *super().given(t)

    def formulas(self):
        import torch

        activate, halves, packed, order = self.activation(), self.split(), self.packed, self.order
        pair = self.pair
        gelu_backward, silu_backward = torch.ops.aten.gelu_backward, torch.ops.aten.silu_backward
        silu, approximate = self.silu, "tanh" if self.tanh else "none"

        def finish(d_value, d_gate):
            return (torch.cat(order(d_value, d_gate), -1),) if packed else (d_value, d_gate)

        def autograd(dy, *given):
            """What autograd runs for the model's formula."""
            value, gate = halves(*given)
            d_activated = dy * value
            d_gate = silu_backward(d_activated, gate) if silu else gelu_backward(d_activated, gate, approximate=approximate)
            return finish(dy * activate(gate), d_gate)

        def plain(dy, *given):
            """In fp32, cast at the end."""
            value, gate = halves(*given)
            found = pair(dy.float(), value.float(), gate.float())
            return finish(*(gradient.to(dy.dtype) for gradient in found))

        return {"autograd": autograd, "plain": plain}

    eager = "autograd"

    def compiled(self):
        return {"compile": ["plain"], "compile-max": []}

    def liger(self, _):
        if self.kind == "erf":
            raise Skip("Liger's GEGLU is that of tanh")
        module = imported(f"liger_kernel.ops.{'swiglu' if self.silu else 'geglu'}", "liger-kernel")
        function = module.swiglu_backward if self.silu else module.geglu_backward
        if self.packed:
            raise Skip("Liger's gradients are those of two tensors")

        def call(given):
            dy, gate, value = given
            d_gate, d_value = function(gate, value, dy)
            return d_value, d_gate

        return Peer(lambda t: (t["dy"].contiguous(), *self.apart(t)), call, inplace=True)

    def blog(self, _):
        raise Skip("the blog has no gradients")


ADAPTERS = [GegluForward, GatedBackward]
