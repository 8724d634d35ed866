"""The tensors of a case, in several sets, each with the case's shapes, strides and offsets."""

import math

ALIGN = 256
# Roles of tensors that are written before they are read.
UNREAD = ("output", "scratch")
# Weights are drawn around 1: if all were 1, a kernel that ignores them would pass.
AROUND_ONE = ("weight", "gamma")


def torch_dtype(name):
    import torch

    # Looked up on demand: torch has 8-bit floats only since 2.1.
    names = {
        "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
        "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64", "bool": "bool",
    }
    return getattr(torch, names[name])


def allocate(spec, sets, device, dtype=None):
    """`sets` tensors as `spec` says, each at a multiple of 256 bytes and its offset."""
    import torch

    kind = torch_dtype(dtype or spec.dtype)
    a_line = ALIGN // kind.itemsize
    pitch = math.ceil((spec.offset + max(spec.span, 1)) / a_line) * a_line
    buffer = torch.zeros(sets, pitch, dtype=kind, device=device)
    return [torch.as_strided(buffer[i], spec.shape, spec.strides, i * pitch + spec.offset) for i in range(sets)], buffer


class Slots:
    """Sets of a case's tensors. `sets[i][name]` is a tensor; inputs are filled, outputs are not."""

    def __init__(self, case, count, device="cuda", fill=None):
        import torch

        self.case, self.count = case, count
        self.sets = [{} for _ in range(count)]
        for name, spec in case.tensors.items():
            views, buffer = allocate(spec, count, device)
            for one, view in zip(self.sets, views, strict=True):
                one[name] = view
            if spec.role in UNREAD:
                continue
            if spec.range and buffer.is_floating_point():
                buffer.uniform_(*spec.range)
            elif spec.range:
                buffer.random_(int(spec.range[0]), int(spec.range[1]) + 1)
            elif buffer.is_floating_point():
                around_one = any(word in name for word in AROUND_ONE)
                buffer.normal_(1.0 if around_one else 0.0, 0.25 if around_one else 1.0)
            elif spec.shape:
                for view in views:
                    view.copy_(torch.arange(spec.shape[-1], device=device).expand(view.shape))
        if fill:
            for one in self.sets:
                fill(one)

    def __getitem__(self, i):
        return self.sets[i]

    def __len__(self):
        return self.count

    def inputs(self, i):
        return {name: tensor for name, tensor in self.sets[i].items() if self.case.tensors[name].role not in UNREAD}
