"""Softmax over rows, cross-entropy of logits, and its gradient."""

from ..library import Skip
from ..peer_modules import imported
from .adapter import Adapter, Peer, wide


class Softmax(Adapter):
    """out = softmax(scale * x)."""

    names = ("softmax",)

    def __init__(self, case):
        super().__init__(case)
        self.scale = self.value("scale", default=1.0)
        # In f16 a probability under 2^-14 has fewer bits the smaller it is, and most of a wide row's are.
        if case.dtype == "f16" and self.value("width") > 8192:
            self.rounds = self.own_rounds = 4.0
        # torch's own takes no scale, and x * scale would be rounded in between.
        self.eager = "fused" if self.scale == 1.0 else "plain"

    def reference(self, t):
        return {"out": (wide(t["x"]) * self.scale).softmax(-1)}

    def given(self, t):
        return (t["x"],)

    def formulas(self):
        scale = self.scale

        def plain(x):
            """In fp32, cast at the end."""
            return ((x.float() * scale).softmax(-1).to(x.dtype),)

        def fused(x):
            """The framework's own operation."""
            return (x.softmax(-1),)

        return {"plain": plain, "fused": fused} if scale == 1.0 else {"plain": plain}

    def unscaled(self):
        if self.scale != 1.0:
            raise Skip("it takes no scale")

    def liger(self, _):
        self.unscaled()
        function = imported("liger_kernel.ops.softmax", "liger-kernel").LigerSoftmaxFunction.apply
        return Peer(self.given, lambda given: (function(*given),))

    def quack(self, args):
        self.unscaled()
        if args.quack:
            raise Skip("--quack has no softmax compiled ahead")
        function = imported("quack.softmax", "quack-kernels").softmax_fwd
        return Peer(self.given, lambda given: (function(*given),))


class Logits(Adapter):
    """What the loss and its gradient share."""

    def __init__(self, case):
        super().__init__(case)
        self.classes = int(self.value("classes"))
        self.ignore_index = int(self.value("ignore_index", default=-100))
        self.smoothing = self.value("label_smoothing", default=0.0)

    def fill(self, tensors):
        tensors["targets"].random_(0, self.classes)

    def plainly(self):
        if self.smoothing:
            raise Skip("QuACK's has no label smoothing")


class CrossEntropy(Logits):
    """loss and lse, one per row. torch's own loss is in the logits' type and does not return lse, so the formula is written
    out: one pass for the sum of exponentials, and one element of each row."""

    names = ("cross_entropy",)
    outputs = ("loss", "lse")

    def losses(self, logits, targets):
        import torch

        lse = torch.logsumexp(logits, -1)
        chosen = logits.gather(-1, targets.clamp(0, self.classes - 1)[:, None])[:, 0]
        loss = lse - chosen
        if self.smoothing:
            loss = loss + self.smoothing * (chosen - logits.mean(-1))
        return torch.where(targets == self.ignore_index, torch.zeros_like(loss), loss), lse

    def reference(self, t):
        loss, lse = self.losses(wide(t["logits"]), t["targets"])
        return {"loss": loss, "lse": lse}

    def given(self, t):
        return t["logits"], t["targets"]

    def formulas(self):
        losses = self.losses

        def plain(logits, targets):
            """In fp32."""
            return losses(logits.float(), targets)

        return {"plain": plain}

    def liger(self, _):
        raise Skip("Liger's counts the targets on the host, so it cannot be captured; and it writes the gradient over the logits")

    def quack(self, args):
        self.plainly()
        if args.quack:
            raise Skip("--quack has no cross entropy compiled ahead")
        function = imported("quack.cross_entropy", "quack-kernels").cross_entropy_fwd
        return Peer(self.given, lambda given: function(*given, ignore_index=self.ignore_index, return_lse=True))


class CrossEntropyBackward(Logits):
    """The gradient of the logits, from the lse that the loss was computed with."""

    names = ("cross_entropy_backward",)
    outputs = ("dlogits",)

    def fill(self, tensors):
        import torch

        super().fill(tensors)
        tensors["lse"].copy_(torch.logsumexp(tensors["logits"].float(), -1))

    def gradient(self, logits, lse, targets, dloss):
        import torch

        hit = torch.arange(self.classes, device=logits.device) == targets[:, None]
        slope = torch.where(targets == self.ignore_index, torch.zeros_like(dloss), dloss)
        p = (logits - lse[:, None]).exp()
        return (p - (1 - self.smoothing) * hit - self.smoothing / self.classes) * slope[:, None]

    def reference(self, t):
        return {"dlogits": self.gradient(wide(t["logits"]), wide(t["lse"]), t["targets"], wide(t["dloss"]))}

    def given(self, t):
        return t["logits"], t["lse"], t["targets"], t["dloss"]

    def formulas(self):
        gradient = self.gradient

        def plain(logits, lse, targets, dloss):
            """In fp32, cast at the end."""
            return (gradient(logits.float(), lse, targets, dloss).to(logits.dtype),)

        return {"plain": plain}

    def liger(self, _):
        raise Skip("Liger's gradient is written by its forward pass")

    def quack(self, args):
        self.plainly()
        if args.quack:
            raise Skip("--quack has no cross entropy compiled ahead")
        function = imported("quack.cross_entropy", "quack-kernels").cross_entropy_bwd

        def call(given):
            logits, lse, targets, dloss = given
            return (function(logits, targets, dloss, lse, ignore_index=self.ignore_index),)

        return Peer(self.given, call)


ADAPTERS = [Softmax, CrossEntropy, CrossEntropyBackward]
