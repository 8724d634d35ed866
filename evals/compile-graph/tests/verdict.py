"""What torch.compile makes of the layer, on the CPU: one graph with the op in it, few compilations, the numbers of the formula, opcheck, and
no call that a capture refuses. The numbers are compared outside of the subject's process."""

import json
import math
import random
import re

import judge

GLOBS = ["gated/*.py"]
CALL = """
import contextlib, json, sys
import torch
from torch.utils._python_dispatch import TorchDispatchMode
sys.path.insert(0, sys.argv[1])
given = json.loads(sys.argv[2])
import gated
from gated import _kernels
told, launches, real = {}, [], _kernels.launch
def launch(out, *rest):
    launches.append(list(out.shape))
    real(out, *rest)
_kernels.launch = launch
class Captured(TorchDispatchMode):
    # What asks the device for a value, or whose shape depends on one.
    REFUSED = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "unique")
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.split("::")[1] in self.REFUSED:
            raise RuntimeError(f"{func} cannot be captured")
        return func(*args, **(kwargs or {}))
def tensors(rows, strided=False):
    g = torch.tensor(given["gate"]).repeat(rows, 1)
    u = torch.tensor(given["up"]).repeat(rows, 1)
    return (g.t().contiguous().t(), u.t().contiguous().t()) if strided else (g, u)
def scenario(name):
    def run(body):
        launches.clear()
        torch._dynamo.reset()
        try:
            told[name] = body()
        except Exception as error:
            told[name] = type(error).__name__ + ": " + str(error)[:300]
    return run
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = gated.Gate(given["scale"]), gated.Gate(2.0)
    def forward(self, gate, up):
        return self.b(self.a(gate + 1, up), up * 0.5) - 1
def numbers(t): return t.detach().double().flatten().tolist()
with torch.no_grad():
    @scenario("eager")
    def _():
        return [numbers(Model()(*tensors(2))), len(launches)]
    @scenario("graph")
    def _():
        graphs = []
        def backend(graph, inputs):
            graphs.append(sorted({str(node.target) for node in graph.graph.nodes if node.op == "call_function" and "gate" in str(node.target)}))
            return graph.forward
        model = torch.compile(Model(), backend=backend, fullgraph=True, dynamic=True)
        return [[numbers(model(*tensors(rows))) for rows in (2, 3, 5, 8)], len(graphs), graphs[0], len(launches)]
    @scenario("aot")
    def _():
        model = torch.compile(Model(), backend="aot_eager", fullgraph=True, dynamic=True)
        return [[numbers(model(*tensors(rows))) for rows in (2, 3, 5)], len(launches)]
    @scenario("scale changes")
    def _():
        model = torch.compile(Model(), backend="aot_eager", fullgraph=True)
        model(*tensors(2))
        model.a.scale.mul_(3)
        return numbers(model(*tensors(2)))
    @scenario("two results")
    def _():
        scale = torch.tensor([given["scale"]])
        g, u = tensors(2)
        first = gated.gate(g, u, scale)
        second = gated.gate(u, g, scale)
        return [numbers(first), numbers(second)]
    @scenario("strided")
    def _():
        return numbers(gated.gate(*tensors(3, True), torch.tensor([given["scale"]])))
    @scenario("bf16")
    def _():
        out = gated.gate(*(t.bfloat16() for t in tensors(2)), torch.tensor([given["scale"]]))
        return [str(out.dtype), list(out.shape)]
    @scenario("capture")
    def _():
        with Captured():
            return numbers(Model()(*tensors(2)))
    @scenario("fake")
    def _():
        with torch._subclasses.FakeTensorMode():
            out = gated.gate(torch.empty(4, 6, dtype=torch.half), torch.empty(4, 6, dtype=torch.half), torch.empty(1))
            return [list(out.shape), str(out.dtype), list(out.stride())]
    @scenario("opcheck")
    def _():
        op = torch.ops.gated.gate.default
        calls = []
        class Seen(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                if func is op and not calls:
                    calls.append((args, kwargs or {}))
                return func(*args, **(kwargs or {}))
        with Seen():
            gated.gate(*tensors(2), torch.tensor([given["scale"]]))
        args, kwargs = calls[0]
        clean = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args)
        return sorted(torch.library.opcheck(op, clean, kwargs, test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")).items())
print(json.dumps(told))
"""


def silu(v):
    return v / (1 + math.exp(-v))


def near(found, right):
    return len(found) == len(right) and all(abs(a - b) <= 1e-4 * (1 + abs(b)) for a, b in zip(found, right))


with judge.judging("visible", "hidden") as verdict, judge.copied(GLOBS) as project:
    width = random.randrange(5, 9)
    gate, up = ([round(random.gauss(0, 2), 3) for _ in range(width)] for _ in range(2))
    scale = round(random.uniform(0.5, 2), 3)
    original = (judge.TESTS / "original/_kernels.py").read_text()
    (project / "gated/_kernels.py").write_text(original)
    script = project / "call.py"
    script.write_text(CALL)
    given = json.dumps({"gate": gate, "up": up, "scale": scale})
    code, out = judge.python(script, project, given, timeout=600)
    if code != 0:
        raise ValueError(f"gated cannot be called:\n{out[-3000:]}")
    told = json.loads(out.splitlines()[-1])

    def model(rows, scale=scale):
        first = [silu(g + 1) * u * scale for g, u in zip(gate, up)]
        return [silu(v) * u * 0.5 * 2 - 1 for v, u in zip(first, up)] * rows

    plain = [silu(g) * u * scale for g, u in zip(gate, up)]
    swapped = [silu(u) * g * scale for g, u in zip(gate, up)]
    checks = {
        "eager": lambda v: near(v[0], model(2)) and v[1] == 2,
        "graph": lambda v: all(near(a, model(n)) for a, n in zip(v[0], (2, 3, 5, 8))) and v[1] <= 2 and "gated" in str(v[2]) and v[3] == 8,
        "aot": lambda v: all(near(a, model(n)) for a, n in zip(v[0], (2, 3, 5))) and v[1] == 6,
        "scale changes": lambda v: near(v, model(2, 3 * scale)),
        "two results": lambda v: near(v[0], plain * 2) and near(v[1], swapped * 2),
        "strided": lambda v: near(v, plain * 3),
        "bf16": lambda v: v == ["torch.bfloat16", [2, width]],
        "capture": lambda v: near(v, model(2)),
        "fake": lambda v: v == [[4, 6], "torch.float16", [6, 1]],
        "opcheck": lambda v: bool(v) and all(result == "SUCCESS" for _, result in v),
    }
    wrong = {}
    for name, good in checks.items():
        value = told.get(name)
        if isinstance(value, str) or value is None or not good(value):
            wrong[name] = str(value)[:400]
    # What a CPU does not do.
    for path in judge.files(GLOBS, project).values():
        if re.search(r"\bsynchronize\s*\(|\.(cpu|item|tolist)\s*\(", path.read_text()):
            wrong["waits"] = f"{path.name} waits for the card"
    for name, value in wrong.items():
        print(f"{name}: {value}")
    verdict.set("visible", not {"eager", "graph"} & set(wrong))
    verdict.set("hidden", not wrong)
