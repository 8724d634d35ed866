"""A kernel that is put into a model and taken out again: what the model does then, beside what it does with the solution's patch.

Both run in processes of their own, with the same seed and a `fused` that marks its results, so that what went through the kernel and
what did not is seen in the numbers. What a subject prints must be what the solution prints.
"""

import json
import os
import random
from pathlib import Path

import judge

# `family` makes models and names their norms; everything else is the same for all.
CALL = """
import copy, importlib, json, sys, types
import torch
folder, module, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, folder)
family = importlib.import_module(module)
calls, mark = [], 1 + seed % 7 / 8
def rms_norm(x, weight=None, eps=1e-6):
    if torch.is_grad_enabled() and (x.requires_grad or weight is not None and weight.requires_grad):
        raise RuntimeError("fused.rms_norm has no gradient")
    if not x.is_contiguous() or weight is not None and (weight.dtype != x.dtype or weight.shape != x.shape[-1:]):
        raise RuntimeError("fused.rms_norm takes contiguous tensors of one dtype")
    calls.append(list(x.shape))
    f = x.float()
    f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + eps) * mark
    return (f if weight is None else f * weight.float()).to(x.dtype)
sys.modules["fused"] = types.SimpleNamespace(rms_norm=rms_norm)
import patch
told = {}
def scenario(name):
    def run(body):
        calls.clear()
        torch.manual_seed(seed)
        try:
            told[name] = body()
        except Exception as error:
            told[name] = type(error).__name__
    return run
def numbers(t): return [round(v, 5) for v in t.detach().float().flatten()[:64].tolist()]
def out(model):
    calls.clear()
    with torch.no_grad():
        return family.run(model)
def place(m, at):
    # Where a norm is, and its width: after the patch there may be another module, or one of another class.
    norm = family.norms(m)[at]
    return next(name for name, one in m.named_modules() if one is norm), family.width(norm)
def model():
    torch.manual_seed(seed)
    m = family.make(seed).eval()
    with torch.no_grad():
        for p in m.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return m

@scenario("visible: patched and restored")
def _():
    m = model(); stock = out(m); n = patch.patch(m); patched = out(m); shapes = sorted(map(str, calls))
    keys = sorted(m.state_dict()); back = patch.restore(m); again = out(m)
    return [n, back, numbers(patched), shapes, torch.equal(stock, again), len(calls), keys == sorted(model().state_dict())]
@scenario("another model is left alone")
def _():
    m, other = model(), model(); before = out(other); patch.patch(m)
    return [torch.equal(out(other), before), len(calls), numbers(out(m)), len(calls)]
@scenario("patched twice, restored once and twice")
def _():
    m = model(); stock = out(m); n = [patch.patch(m), patch.patch(m)]; mid = numbers(out(m)); count = len(calls)
    return [n, mid, count, patch.restore(m), torch.equal(out(m), stock), patch.restore(m)]
@scenario("weights that change later")
def _():
    m = model(); patch.patch(m); m.load_state_dict({k: v * 1.5 for k, v in model().state_dict().items()}); return numbers(out(m))
@scenario("another dtype later")
def _():
    m = model(); patch.patch(m); m.to(torch.bfloat16); return [numbers(out(m)), len(calls)]
@scenario("training")
def _():
    m = model(); patch.patch(m); calls.clear(); loss = family.run(m).float().pow(2).mean(); loss.backward()
    grads = [numbers(p.grad) for name, p in m.named_parameters() if "norm" in name and p.grad is not None][:3]
    return [numbers(loss), grads, len(calls), numbers(out(m)), len(calls)]
@scenario("frozen, with gradients through it")
def _():
    m = model().requires_grad_(False); at, width = place(m, 0); patch.patch(m); norm = m.get_submodule(at); x = torch.randn(3, width, requires_grad=True)
    norm(x).pow(2).sum().backward(); return [numbers(x.grad), len(calls)]
@scenario("strided input")
def _():
    # Copied for the kernel, or left to the model's own code: either is right.
    m = model(); at, width = place(m, 0); x = torch.randn(width, 5).t()
    with torch.no_grad():
        stock = m.get_submodule(at)(x); patch.patch(m); found, through = m.get_submodule(at)(x), m.get_submodule(at)(x.contiguous())
    return [torch.allclose(found, stock) or torch.equal(found, through), torch.allclose(through, stock)]
@scenario("activations of another dtype")
def _():
    m = model(); at, width = place(m, -1); patch.patch(m); norm = m.get_submodule(at); calls.clear()
    with torch.no_grad():
        y = norm(torch.randn(2, width, dtype=torch.bfloat16))
    return [numbers(y), str(y.dtype), len(calls)]
@scenario("hooks")
def _():
    m = model(); seen = []; norm = family.norms(m)[0]; norm.register_forward_hook(lambda *a: seen.append(1)); patch.patch(m); out(m)
    return [len(seen), len(calls)]
@scenario("a norm of another class")
def _():
    m = model(); family.strange(m); n = patch.patch(m); y = numbers(out(m)); return [n, y, len(calls), patch.restore(m)]
@scenario("a copy of a patched model")
def _():
    m = model(); patch.patch(m); c = copy.deepcopy(m); c.load_state_dict({k: v * 1.5 for k, v in c.state_dict().items()}); return [numbers(out(c)), numbers(out(m))]
print(json.dumps(told))
"""


def observed(folder, module, seed):
    script = folder / "call.py"
    script.write_text(CALL)
    code, out = judge.python(script, folder, module, seed, path=[judge.TESTS], timeout=600, env={"SOLUTION": "", "HF_HUB_OFFLINE": "1"})
    if code != 0:
        raise ValueError(f"patch.py cannot be called:\n{out[-3000:]}")
    return json.loads(out.splitlines()[-1])


def judged(module):
    """`module` of the tests makes the models."""
    solution = Path(os.environ.get("SOLUTION") or judge.TESTS.parent / "solution")
    with judge.judging("visible", "hidden") as verdict, judge.copied(["patch.py"]) as project:
        seed = random.randrange(1 << 20) * 7 + 3  # so that results of the kernel are marked
        found = observed(project, module, seed)
        clean = project / "right"  # not there before, where what the subject wrote could read it
        clean.mkdir()
        (clean / "patch.py").write_text((solution / "patch.py").read_text())
        right = observed(clean, module, seed)
        if any(isinstance(value, str) for value in right.values()):
            raise judge.Broken(f"the solution fails here: {right}")
        wrong = {name for name in right if found.get(name) != right[name]}
        for name in sorted(wrong):
            print(f"not as it should be: {name}")
        verdict.set("visible", not any(name.startswith("visible") for name in wrong))
        verdict.set("hidden", not wrong)
