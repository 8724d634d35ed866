"""Operations that mostly move memory: a transpose, a sum over rows, and a chain of elementwise operations."""

from .adapter import Adapter, wide


class Transpose(Adapter):
    """out[batch, column, row] = x[batch, row, column]."""

    names = ("transpose",)

    def reference(self, t):
        return {"out": wide(t["x"]).transpose(1, 2)}

    def given(self, t):
        return (t["x"],)

    def formulas(self):
        return {"plain": lambda x: (x.transpose(1, 2).contiguous(),)}


class ColumnSum(Adapter):
    """out[column] = the sum over the rows, in the type of x, in fp32, or both."""

    names = ("column_sum",)

    def __init__(self, case):
        super().__init__(case)
        self.outputs = tuple(name for name in ("out", "out_f32") if self.has(name))

    def reference(self, t):
        return dict.fromkeys(self.outputs, wide(t["x"]).sum(0))

    def given(self, t):
        return (t["x"],)

    def formulas(self):
        import torch

        types = [torch.float32 if name == "out_f32" else None for name in self.outputs]

        def plain(x):
            return tuple(x.sum(0, dtype=dtype or x.dtype) for dtype in types)

        return {"plain": plain}


class BiasGeluScaleResidual(Adapter):
    """residual + scale * gelu(x + bias)."""

    names = ("bias_gelu_scale_residual", "bias_gelu_scale_residual_in_place")
    rounds = 3.0

    def __init__(self, case):
        super().__init__(case)
        self.outputs = ("out",) if self.has("out") else ("residual",)
        self.approximate = "tanh" if self.value("tanh", default=0.0) else "none"

    def given(self, t):
        return t["residual"], t["x"], t["bias"], t["scale"]

    def chain(self, residual, x, bias, scale):
        import torch

        return residual + scale * torch.nn.functional.gelu(x + bias, approximate=self.approximate)

    def reference(self, t):
        return {self.outputs[0]: self.chain(*(wide(tensor) for tensor in self.given(t)))}

    def formulas(self):
        return {"plain": lambda *given: (self.chain(*given),)}


ADAPTERS = [Transpose, ColumnSum, BiasGeluScaleResidual]
