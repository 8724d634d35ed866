"""Times this kernel's functions on the bench cases of its kernel.toml: `kernels benchmark OWNER/NAME@v1`, of the Python package
`kernels`. Written by `kernels publish`.

Before a workload is timed, its results are held against a reference in fp64: the project's own in Python, or torch's functions.
`Ref` is the time of that reference in the tensors' own type. A workload without a reference is timed alone.
"""

import inspect
import json

import torch
import torch.nn.functional as F
from kernels.benchmark import Benchmark

OPERATIONS = json.loads(r"""@OPERATIONS@""")
DTYPES = {
    "bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8, "u8": torch.uint8,
    "i32": torch.int32, "i64": torch.int64, "bool": torch.bool, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
}  # fmt: skip


def rms_norm(x, eps, weight=None, weight_offset=0, round_first=0, **_):
    if not (weight_offset or round_first):
        return F.rms_norm(x, x.shape[-1:], weight, eps)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    norm = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    norm = norm.to(x.dtype) if round_first else norm
    return (norm if weight is None else norm * (weight + weight_offset)).to(x.dtype)


def add_rms_norm(x, residual, eps, **others):
    return {"sum": x + residual, "out": rms_norm(x + residual, eps, **others)}


def gated(activation, x, gate_first):
    first, second = x.chunk(2, dim=-1)
    return activation(first) * second if gate_first else first * activation(second)


REFERENCES = {
    "rms_norm": rms_norm,
    "add_rms_norm": add_rms_norm,
    "geglu": lambda x, gate_first, tanh, **_: gated(lambda g: F.gelu(g, approximate="tanh" if tanh else "none"), x, gate_first),
    "swiglu": lambda gate, up, **_: F.silu(gate) * up,
    "swiglu_packed": lambda x, gate_first, **_: gated(F.silu, x, gate_first),
    "softmax": lambda x, scale, **_: F.softmax(x * scale, dim=-1),
}


def reference_of(operation):
    if operation["reference"] is None:
        return REFERENCES.get(operation["name"])
    module = {"__name__": "reference"}
    exec(operation["reference"]["text"], module)
    return module[operation["reference"]["function"]]


def asked(reference, given):
    """What a reference takes of these, by name."""
    parameters = inspect.signature(reference).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return {name: value for name, value in given.items() if takes_all or name in parameters}


def drawn(spec, device):
    dtype, numbers = DTYPES[spec["dtype"]], spec["integers"]
    if numbers:
        flat = torch.randint(numbers[0], numbers[1] + 1, (spec["span"],), device=device)
        flat = flat.double() * 2.0**-20 if dtype.is_floating_point else flat
    else:
        flat = torch.randn(spec["span"], device=device)
    return torch.as_strided(flat.to(dtype), spec["shape"], spec["strides"])


def bound(function, tensors, case, names):
    """What the function takes, by the names of its parameters: an output where it has no default, a number, a tensor."""
    given = {}
    for name, parameter in inspect.signature(function).parameters.items():
        is_output = name in tensors and case["tensors"][name]["role"] == "Output"
        if name in tensors and not (is_output and parameter.default is not parameter.empty):
            given[name] = tensors[name]
        elif name in case["values"] and name not in names:
            number = case["values"][name]
            given[name] = int(number) if number == int(number) and name != "eps" else number
        elif name == "approximate" and "tanh" in case["values"]:  # as torch's gelu names it
            given[name] = "tanh" if case["values"]["tanh"] else "none"
        elif parameter.default is parameter.empty and name in names:
            given[name] = None
        elif parameter.default is parameter.empty:
            raise RuntimeError(f"{function.__name__} wants `{name}`, which kernel.toml does not have")
    return given


def outputs(returned, tensors, case):
    """{name: tensor}, of what was returned, or written where it was to be."""
    names = [name for name, spec in case["tensors"].items() if spec["role"] in ("Output", "InOut")]
    if isinstance(returned, dict):
        return returned
    returned = [returned] if isinstance(returned, torch.Tensor) else list(returned or [tensors[name] for name in names])
    if len(returned) != len(names):
        raise RuntimeError(f"{len(returned)} tensors were returned for {', '.join(names)}")
    return dict(zip(names, returned))


class Cases(Benchmark):
    seed = 0

    def prepare(self, operation, case):
        tensors = {name: drawn(spec, self.device) for name, spec in case["tensors"].items() if spec["role"] != "Scratch"}
        inputs = {name: tensor for name, tensor in tensors.items() if case["tensors"][name]["role"] != "Output"}
        function, reference = getattr(self.kernel, operation["name"]), reference_of(operation)
        values = case["values"] | dict.fromkeys(set(operation["tensors"]) - set(case["tensors"]))
        wide = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
        wanted = outputs(reference(**asked(reference, values | wide)), {}, case) if reference else {}
        own = asked(reference, values | {name: tensor.clone() for name, tensor in inputs.items()}) if reference else {}
        given = bound(function, tensors, case, operation["tensors"])
        self.call = lambda: function(**given)
        self.refer = lambda: reference(**own)
        for name, tensor in outputs(self.call(), tensors, case).items() if wanted else ():
            right, eps = wanted[name].reshape(tensor.shape), torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else 0
            off, allowed = (tensor.double() - right).abs().max().item(), 4 * eps * right.abs().max().item()
            if not off <= allowed:
                raise RuntimeError(f"{operation['name']}: {name} is {off:.3g} off the reference, with {allowed:.3g} allowed")


def add(operation, case):
    name = "".join(c if c.isalnum() else "_" for c in f"{operation['name']}_{case['label']}")

    def verify(self):
        self.out = next(iter(outputs(self.refer(), {}, case).values()))
        return self.out  # the kernel's results were compared before, in fp64

    setattr(Cases, f"setup_{name}", lambda self: self.prepare(operation, case))
    setattr(Cases, f"benchmark_{name}", lambda self: self.call())
    if reference_of(operation):
        setattr(Cases, f"verify_{name}", verify)


for one in OPERATIONS:
    for a_case in one["cases"]:
        add(one, a_case)
