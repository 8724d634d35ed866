"""`kernels check --strict`, the stable-ABI build, and the package as the Hub's library loads it: under a name of its own, on a CPU."""

import json
import random
import re
import shutil
import sys

import judge

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


def built(project):
    """Exit code of the build, with the headers of this Python's torch, else those that the program finds."""
    for python in [["--python", sys.executable], []]:
        code, report = judge.kernels("build", "--torch", *python, project)
        error = str((report or {}).get("error"))
        if not error.startswith("no torch headers"):
            return code
    raise judge.Broken(error)


def loaded(folder, x):
    """What the package says of itself, in a process of its own."""
    name = f"kernel_{random.randrange(1 << 40)}"
    package = next((folder / "build").glob("torch-stable-abi*"))
    shutil.copytree(package, folder / "loaded" / name)
    script = folder / "loaded/call.py"
    script.write_text(CALL)
    code, out = judge.python(script, folder / "loaded", name, json.dumps(x), timeout=300)
    if code != 0:
        raise ValueError(f"the package cannot be loaded:\n{out[-2000:]}")
    return json.loads(out.splitlines()[-1])


with judge.judging("compiles", "check", "visible", "hidden") as verdict, judge.copied(GLOBS) as project:
    code, _ = judge.kernels("check", project)
    strict, _ = judge.kernels("check", project, "--strict")
    allowed = any(re.search(r"kernels:\s*allow", path.read_text(errors="replace")) for path in judge.files(GLOBS, project).values())
    named = re.search(r'(?m)^\s*repo-id\s*=\s*"acme/squared-relu"', (project / "build.toml").read_text())
    verdict.set("check", strict == 0 and not allowed and named is not None, "findings, an exception, or another repository")
    if code == 0:  # what an error of the check names fails in a build
        code = built(project)
        verdict.set("compiles", code == 0, "`kernels build --torch` fails")
    if verdict.axes["compiles"]:
        x = [[random.randrange(-8, 8) + 0.25 for _ in range(3)] for _ in range(4)]
        found = loaded(project, x)
        out, given = ["out", "Tensor", True], ["x", "Tensor", False]
        public = {"squared_relu", "layers"} <= set(found["all"]) and not found["missing"]
        verdict.set("visible", public and found["arguments"] == [out, given] and found["returns"] == 0)
        right = [[5 * v - 3 for v in row] for row in x]
        same = found["plain"] == right == found["layer"] and found["strided"] == [list(row) for row in zip(*right)]
        verdict.set("hidden", same and found["fake"] == [5, 3] and set(found["members"]) <= ALLOWED_MEMBERS)
