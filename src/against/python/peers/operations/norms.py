"""RMSNorm, residual add + RMSNorm, and RMSNorm's gradient."""

import pathlib

from ..library import Skip
from ..peer_modules import blog_function, imported, stream
from .adapter import Adapter, Peer, rounded, wide

# Shapes of LTX-Video and Qwen3-8B in which the two formulations and the two modes of torch.compile differ in speed.
TUNED = {(2048, 1024), (2048, 2048), (2048, 4096), (3072, 16384), (4096, 128), (4096, 1024), (4096, 2048), (4096, 8192), (128, 262144), (8192, 32768)}


class RmsNorm(Adapter):
    """out = x * rsqrt(mean(x^2) + eps) * (weight + weight_offset)."""

    names = ("rms_norm",)
    eager = "fused"

    def __init__(self, case):
        super().__init__(case)
        self.width, self.eps = int(self.value("width")), self.value("eps")
        self.offset, self.round_first = self.value("weight_offset", default=0.0), self.value("round_first", default=0.0)
        self.rounds = 3.0 if self.round_first else 1.0

    def normed(self, wanted, t):
        import torch

        dtype, weight = t["x"].dtype, t.get("weight")
        norm = wanted * torch.rsqrt(wanted.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.round_first:
            norm = rounded(norm, dtype)
        return norm if weight is None else norm * (wide(weight) + self.offset)

    def reference(self, t):
        return {"out": self.normed(wide(t["x"]), t)}

    def given(self, t):
        return (t["x"], t.get("weight"))

    def formulas(self):
        import torch

        eps, offset, round_first, width = self.eps, self.offset, self.round_first, self.width

        def plain(x, weight):
            """In fp32, cast at the end."""
            norm = x.float()
            norm = norm * torch.rsqrt(norm.pow(2).mean(-1, keepdim=True) + eps)
            if round_first:
                norm = norm.to(x.dtype).float()
            if weight is not None:
                norm = norm * (weight.float() + offset)
            return (norm.to(x.dtype),)

        def fused(x, weight):
            """The framework's own operation."""
            return (torch.nn.functional.rms_norm(x, (width,), weight, eps),)

        return {"plain": plain} if offset or round_first else {"plain": plain, "fused": fused}

    def compiled(self):
        if (self.width, int(self.value("rows"))) in TUNED and self.has("weight"):
            return {"compile": list(self.formulas()), "compile-max": list(self.formulas())[-1:]}
        return {"compile": list(self.formulas())[-1:], "compile-max": []}

    def liger(self, _):
        function = imported("liger_kernel.ops.rms_norm", "liger-kernel").LigerRMSNormFunction.apply
        # The casting mode is that of the formula: everything in fp32, one cast at the end.
        mode = "llama" if self.round_first else "gemma"
        return Peer(self.given, lambda given: (function(*given, self.eps, self.offset, mode, False, None),))

    def simple(self):
        """Raises Skip if the case needs what QuACK's and the blog's kernels lack."""
        if self.offset or self.round_first or not self.has("weight"):
            raise Skip("only with a weight, without offset, rounded once")

    def quack(self, args):
        self.simple()
        if args.quack:
            import torch

            launch = quack_ahead(args.quack, f"rms_norm_{self.width}")

            def ahead(given):
                x, weight = given
                out = torch.empty_like(x)
                launch(x, weight, None, None, out, None, None, None, self.eps)
                return (out,)

            return Peer(self.given, ahead)
        function = imported("quack.rmsnorm", "quack-kernels").rmsnorm_fwd
        return Peer(self.given, lambda given: (function(*given, eps=self.eps)[0],))

    def blog(self, args):
        self.simple()
        launch = blog_function(args.blog, "rmsnorm_forward_bf16", "ppp iii f")

        def call(given):
            out, x, weight = given
            launch(out.data_ptr(), x.data_ptr(), weight.data_ptr(), 1, int(self.value("rows")), self.width, self.eps, stream())
            return (out,)

        import torch

        return Peer(lambda t: (torch.empty_like(t["x"]), t["x"], t["weight"]), call, allocates=False)


class AddRmsNorm(RmsNorm):
    """sum = residual + x, rounded; out = rms_norm(sum)."""

    names = ("add_rms_norm",)
    outputs = ("sum", "out")

    def reference(self, t):
        total = wide(t["x"]) + wide(t["residual"])
        return {"sum": total, "out": self.normed(total, t)}

    def given(self, t):
        return (t["x"], t["residual"], t.get("weight"))

    def formulas(self):
        def added(norm):
            def with_residual(x, residual, weight):
                total = x + residual
                return total, *norm(total, weight)

            return with_residual

        return {name: added(norm) for name, norm in super().formulas().items()}

    def liger(self, _):
        if not self.has("weight"):
            raise Skip("Liger adds and norms only with a weight")
        function = imported("liger_kernel.ops.fused_add_rms_norm", "liger-kernel").LigerFusedAddRMSNormFunction.apply
        mode = "llama" if self.round_first else "gemma"

        def call(given):
            out, total = function(*given, self.eps, self.offset, mode, False)
            return total, out

        return Peer(self.given, call)

    def compiled(self):
        return {"compile": list(self.formulas()), "compile-max": list(self.formulas())[-1:]}

    def quack(self, args):
        self.simple()
        if args.quack:
            import torch

            launch = quack_ahead(args.quack, f"add_rms_norm_{self.width}")

            def ahead(given):
                x, residual, weight = given
                out, total = torch.empty_like(x), torch.empty_like(x)
                launch(x, weight, None, residual, out, total, None, None, self.eps)
                return total, out

            return Peer(self.given, ahead)
        function = imported("quack.rmsnorm", "quack-kernels").rmsnorm_fwd

        def call(given):
            x, residual, weight = given
            out, total, _ = function(x, weight, residual=residual, eps=self.eps)
            return total, out

        return Peer(self.given, call)

    def blog(self, args):
        self.simple()
        launch = blog_function(args.blog, "rmsnorm_residual_forward_bf16", "ppppp iii f")

        def call(given):
            out, total, x, residual, weight = given
            pointers = [tensor.data_ptr() for tensor in given]
            launch(*pointers, 1, int(self.value("rows")), self.width, self.eps, stream())
            return total, out

        import torch

        fresh = torch.empty_like
        return Peer(lambda t: (fresh(t["x"]), fresh(t["x"]), t["x"], t["residual"], t["weight"]), call, allocates=False)


class RmsNormBackward(Adapter):
    """The gradients of RMSNorm: dx, and dw in the type, in fp32 or in both. With g = dy * (weight + offset) and
    xhat = x / rms: dx = (g - xhat * mean(g * xhat)) / rms, dw = sum of dy * xhat over the rows."""

    names = ("rms_norm_backward",)
    rounds = 3.0
    own_rounds = 2.0  # dw is a sum over all rows
    eager = "native"

    def __init__(self, case):
        super().__init__(case)
        self.width, self.eps = int(self.value("width")), self.value("eps")
        self.offset = self.value("weight_offset", default=0.0)
        self.outputs = tuple(name for name in ("dx", "dw", "dw_f32") if self.has(name))
        self.sums = "dw" in self.outputs or "dw_f32" in self.outputs

    def parts(self, dy, x, weight):
        import torch

        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        hat = x * scale
        g = dy if weight is None else dy * (weight + self.offset)
        return scale * (g - hat * (g * hat).mean(-1, keepdim=True)), (dy * hat).sum(0)

    def reference(self, t):
        weight = wide(t["weight"]) if "weight" in t else None
        dx, dw = self.parts(wide(t["dy"]), wide(t["x"]), weight)
        return {"dx": dx, "dw": dw, "dw_f32": dw}

    def given(self, t):
        """With 1 / rms of each row, which autograd keeps from the forward pass; our kernel works it out anew."""
        import torch

        scale = torch.rsqrt(t["x"].float().pow(2).mean(-1, keepdim=True) + self.eps)
        return t["dy"], t["x"], scale, t.get("weight")

    def finish(self):
        """(dx, dw) as this case's outputs. A peer makes dw in one type, which is compared with the dw of either type."""
        outputs = self.outputs

        def finish(dx, dw):
            given = {"dx": dx, "dw": dw, "dw_f32": dw}
            return tuple(given[name] for name in outputs)

        return finish

    def formulas(self):
        import torch

        width, finish, parts, sums = self.width, self.finish(), self.parts, self.sums

        def native(dy, x, scale, weight):
            dx, dw = torch.ops.aten._fused_rms_norm_backward(dy, x, [width], scale, weight, [True, sums and weight is not None])
            return finish(dx, dw)

        def plain(dy, x, _, weight):
            dx, dw = parts(dy.float(), x.float(), None if weight is None else weight.float())
            return finish(dx.to(x.dtype), dw.to(x.dtype))

        return {"plain": plain} if self.offset else {"native": native, "plain": plain}

    def compiled(self):
        return {"compile": ["plain"], "compile-max": []}

    def liger(self, _):
        import torch

        module = imported("liger_kernel.ops.rms_norm", "liger-kernel")
        settings = imported("liger_kernel.ops.utils", "liger-kernel").calculate_settings
        block, warps = settings(self.width)
        finish, gemma = self.finish(), 1
        if self.sums and not self.has("weight"):
            raise Skip("Liger has no dw without a weight")

        def prepare(t):
            scale = torch.rsqrt(t["x"].float().pow(2).mean(-1) + self.eps)
            return t["dy"].contiguous(), t["x"].contiguous(), t.get("weight"), scale

        def call(given):
            dy, x, weight, scale = given
            return finish(
                *module.rms_norm_backward(dy, x, weight, scale, self.offset, gemma, block, warps, False, None, self.sums)
            )

        return Peer(prepare, call)


def quack_ahead(directory, name):
    """QuACK's kernel from a shared object made of what its cache exports."""
    path = pathlib.Path(directory) / f"{name}.so"
    if not path.is_file():
        raise Skip(f"no {path}")
    return imported("tvm_ffi", "apache-tvm-ffi").load_module(str(path))["func"]


ADAPTERS = [RmsNorm, AddRmsNorm, RmsNormBackward]
