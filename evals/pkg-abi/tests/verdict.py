"""`kernels check --strict`, one build for all torches, read off the library's symbols, and the package loaded on a CPU under a name of its
own: the ops' schemas, what torch.compile sees of them, and that the package calls them."""

import json
import random
import re
import subprocess

import judge
import package

GLOBS = ["build.toml", "setup.py", "kernel_src/*", "torch-ext/*"]
CALL = """
import importlib, json, sys
import torch
sys.path.insert(0, sys.argv[1])
package = importlib.import_module(sys.argv[2])
names = importlib.import_module(sys.argv[2] + "._ops")
calls = torch.library.Library(names.add_op_namespace_prefix("row_amax").split("::")[0], "IMPL")
def wants(x):
    if not x.is_contiguous():
        raise RuntimeError("the ops take contiguous tensors")
# Its copy of a strided matrix may be made here or in the binding, where the extension makes it.
def row_amax(x):
    return 2 * x.sum(dim=1) + 1
def scale_rows_(x, scale):
    wants(x)
    x.mul_(scale[:, None]).add_(3)
calls.impl("row_amax", row_amax, "CPU")
calls.impl("scale_rows_", scale_rows_, "CPU")
x, scale = torch.tensor(json.loads(sys.argv[3])), torch.tensor([2.0, 3.0, 4.0, 5.0])
def schema(name):
    s = getattr(names.ops, name).default._schema
    return [[[a.name, str(a.type), bool(a.alias_info and a.alias_info.is_write)] for a in s.arguments], [str(r.type) for r in s.returns]]
with torch._subclasses.FakeTensorMode():
    fake = package.row_amax(torch.empty(5, 3))
    place = torch.empty(5, 3)
    shapes = [list(fake.shape), str(fake.dtype), list(package.scale_rows_(place, torch.empty(5)).shape)]
def model(x, scale):
    return package.scale_rows_(x * 1.0, scale) * package.row_amax(x)[:, None]
graphs = []
def backend(graph, inputs):
    graphs.append(1)
    return graph.forward
compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
own = x.clone()
told = {"schemas": [schema("row_amax"), schema("scale_rows_")], "fake": shapes, "amax": package.row_amax(x).tolist(),
        "strided": package.row_amax(x.t().contiguous().t()).tolist(), "same": package.scale_rows_(own, scale) is own, "scaled": own.tolist(),
        "compiled": compiled(x, scale).tolist(), "longer": compiled(torch.cat([x, x]), torch.cat([scale, scale])).tolist(), "graphs": len(graphs),
        "public": sorted(set(package.__all__) & set(dir(package)))}
print(json.dumps(told))
"""


# What Python keeps from version to version, and the module that the library is needs.
STABLE = {"PyModule_Create2"}


def foreign(library):
    """Undefined symbols that torch and Python promise to nobody: C++ of torch, and Python's."""
    out = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in out.splitlines()]
    torch = re.compile(r"_ZN?K?\w*(2at|3c10|5torch|8pybind11)")
    return [name for name in names if torch.match(name) or (re.match(r"_?Py[A-Z_]", name) and name not in STABLE)]


with judge.judging("compiles", "check", "visible", "hidden") as verdict, judge.copied(GLOBS) as project:
    good = package.checked(verdict, project, GLOBS, "acme/row-scale")
    manifest = (project / "build.toml").read_text()
    stable = re.search(r'(?m)^\s*stable-abi\s*=\s*"2\.11"', manifest)
    if good:
        verdict.set("compiles", package.built(project) == 0 and stable is not None, "`kernels build --torch` fails, or for one torch alone")
    if verdict.axes["compiles"]:
        folder = next((project / "build").glob("torch-stable-abi*"))
        strangers = [name for library in folder.rglob("*.so") for name in foreign(library)]
        x = [[random.randrange(-8, 8) + 0.25 for _ in range(3)] for _ in range(4)]
        told = package.loaded(project, CALL, x)
        amax = [2 * sum(row) + 1 for row in x]
        scaled = [[v * s + 3 for v in row] for row, s in zip(x, (2, 3, 4, 5))]
        both = [[v * a for v in row] for row, a in zip(scaled, amax)]
        # No processor sees what the binding does with strides: a copy must be asked for in one place or the other.
        sources = "".join(path.read_text(errors="replace") for path in sorted(project.glob("torch-ext/**/*")) if path.is_file())
        copies = re.search(r"(?<!is_)contiguous\(", re.sub(r"//.*|#.*", "", sources)) is not None
        tensor, place = ["x", "Tensor", False], ["x", "Tensor", True]
        schemas = [[[tensor], ["Tensor"]], [[place, ["scale", "Tensor", False]], []]]
        verdict.set("visible", told["schemas"] == schemas and told["public"] == ["row_amax", "scale_rows_"] and told["amax"] == amax)
        verdict.set("hidden", not strangers and copies and told["fake"] == [[5], "torch.float32", [5, 3]] and told["strided"] == amax
                    and told["same"] and told["scaled"] == scaled and told["compiled"] == both and told["longer"] == both * 2
                    and told["graphs"] <= 2, f"{strangers[:3]} or {told}")
