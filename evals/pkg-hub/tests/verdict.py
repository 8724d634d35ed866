"""`kernels check --strict`, the stable-ABI build, and the package as the Hub's library loads it: under a name of its own, on a CPU."""

import random

import judge
import package

GLOBS = ["build.toml", "setup.py", "kernel_src/*", "torch-ext/*"]
# The op gets an implementation that nobody would guess, so that what is not the op's result is seen.
CALL = """
import importlib, json, sys
import torch
sys.path.insert(0, sys.argv[1])
package = importlib.import_module(sys.argv[2])
names = importlib.import_module(sys.argv[2] + "._ops")
op = names.ops.squared_relu.default
calls = torch.library.Library(names.add_op_namespace_prefix("squared_relu").split("::")[0], "IMPL")
def stands_in(out, x):
    if not (out.is_contiguous() and x.is_contiguous()):
        raise RuntimeError("the op takes contiguous tensors")
    out.copy_(5 * x - 3)
calls.impl("squared_relu", stands_in, "CPU")
x = torch.tensor(json.loads(sys.argv[3]))
with torch._subclasses.FakeTensorMode():
    fake = list(package.squared_relu(torch.empty(5, 3)).shape)
layer = package.layers.SquaredReLU
print(json.dumps({
    "all": sorted(package.__all__), "missing": [name for name in package.__all__ if not hasattr(package, name)],
    "arguments": [[a.name, str(a.type), bool(a.alias_info and a.alias_info.is_write)] for a in op._schema.arguments],
    "returns": len(op._schema.returns), "plain": package.squared_relu(x).tolist(), "strided": package.squared_relu(x.t()).tolist(),
    "layer": layer()(x).tolist(), "fake": fake, "members": sorted(set(vars(layer)) - set(vars(type("M", (torch.nn.Module,), {})))),
}))
"""
ALLOWED_MEMBERS = {"forward", "can_torch_compile", "has_backward", "__annotations__"}


with judge.judging("compiles", "check", "visible", "hidden") as verdict, judge.copied(GLOBS) as project:
    if package.checked(verdict, project, GLOBS, "acme/squared-relu"):
        verdict.set("compiles", package.built(project) == 0, "`kernels build --torch` fails")
    if verdict.axes["compiles"]:
        x = [[random.randrange(-8, 8) + 0.25 for _ in range(3)] for _ in range(4)]
        found = package.loaded(project, CALL, x)
        out, given = ["out", "Tensor", True], ["x", "Tensor", False]
        public = {"squared_relu", "layers"} <= set(found["all"]) and not found["missing"]
        verdict.set("visible", public and found["arguments"] == [out, given] and found["returns"] == 0)
        right = [[5 * v - 3 for v in row] for row in x]
        same = found["plain"] == right == found["layer"] and found["strided"] == [list(row) for row in zip(*right)]
        verdict.set("hidden", same and found["fake"] == [5, 3] and set(found["members"]) <= ALLOWED_MEMBERS)
