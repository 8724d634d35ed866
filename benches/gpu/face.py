#!/usr/bin/env python3
"""Tests the parts of the Python API that need a GPU, and `kernels bench --against`: `face.py OUT [CHECK...]`, in a Python with
torch and the wheel. Without names it runs all checks, in about three minutes.

Needs nvcc, like `kernels build`. Each check prints its result; the last line has the number of failures. The exit code is
nonzero if a check failed. `OUT/face.json` has the figures.
"""

import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

import torch

import kernels_harness as harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIG = (8192, 4096)
checks, figures = [], {}


def check(function):
    checks.append(function)
    return function


def tensor(*shape, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(*shape, device=device).to(dtype)


def expect(found, words, *given, **named):
    """That a call raises an Error with these words."""
    try:
        found(*given, **named)
    except harness.Error as error:
        assert words in str(error), f"no {words!r} in: {error}"
        return
    raise AssertionError(f"nothing was raised where {words!r} was to be said")


def right(x, weight, eps):
    wide = x.double()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return wide if weight is None else wide * weight.double()


def same(got, want, dtype=torch.bfloat16):
    allowed = {torch.bfloat16: 4e-3, torch.float16: 6e-4, torch.float32: 4e-6}[dtype]
    error = ((got.double() - want).norm() / want.norm().clamp_min(1e-300)).item()
    assert error <= allowed, f"relative error {error:.2e}, allowed {allowed:.1e}"


def rms_norm():
    return harness.Project.open(ROOT / "kernels/rmsnorm").operation("rms_norm")


@check
def cards_and_ruler():
    found = harness.cards()
    assert len(found) == torch.cuda.device_count(), found
    ruler = harness.Ruler()
    properties = torch.cuda.get_device_properties(0)
    assert ruler.card.l2_bytes == properties.L2_cache_size, ruler.card
    assert torch.cuda.current_device() == 0
    expect(harness.Ruler, "counted from 0", 99)
    return repr(ruler)


@check
def the_copy_roof():
    ruler = harness.Ruler()
    copy = ruler.copy(256 << 20)
    assert 0.5 * ruler.card.peak_gbs < copy.gbs < ruler.card.peak_gbs, copy
    assert copy.p10 <= copy.median <= copy.p90, copy
    hot = ruler.copy(8 << 20, hot=True)
    cold = ruler.copy(8 << 20)
    assert hot.median < cold.median, (hot, cold)
    figures["copy"] = {"gbs": copy.gbs, "by": copy.by, "hot_us": hot.median, "cold_us": cold.median}
    expect(ruler.copy, "moves no bytes", 0)
    return f"{copy.gbs:.0f} GB/s by {copy.by}; 8 MiB cold {cold.median:.2f} µs, hot {hot.median:.2f} µs"


@check
def a_kernel_on_tensors_is_right():
    norm, said = rms_norm(), []
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for rows, width in ((1, 1), (3, 65), (128, 4096), (34, 8200)):
            x, weight = tensor(rows, width, dtype=dtype), tensor(width, dtype=dtype)
            same(norm(x=x, weight=weight, eps=1e-5), right(x, weight, 1e-5), dtype)
            same(norm(x=x), right(x, None, 1e-6), dtype)
            said.append((rows, width))
    # A view with a row stride, an output of the caller's, parameters with gradients, and a row of no length.
    x = tensor(64, 512)[:, 128:384]
    out = torch.full((64, 256), math.nan, device="cuda", dtype=torch.bfloat16)
    returned = norm(x=x, out=out)
    assert returned.data_ptr() == out.data_ptr()
    same(out, right(x, None, 1e-6))
    weight = torch.nn.Parameter(tensor(256))
    same(norm(x=x, weight=weight), right(x, weight.detach(), 1e-6))
    assert norm(x=tensor(0, 256)).shape == (0, 256)
    normed, total = harness.Project.open(ROOT / "kernels/rmsnorm").operation("add_rms_norm")(
        x=x, residual=x, weight=weight
    )
    same(total, x.double() * 2)
    same(normed, right(total, weight.detach(), 1e-6))
    return f"{len(said)} shapes in three types"


@check
def what_does_not_fit_raises():
    norm, x = rms_norm(), tensor(8, 256)
    expect(norm, "weight.shape[0]", x=x, weight=tensor(255))
    expect(norm, "x is bf16 and weight is f32", x=x, weight=tensor(256, dtype=torch.float32))
    expect(norm, "must be one of", x=x.to(torch.int32))
    expect(norm, "reshape it", x=tensor(2, 4, 256))
    expect(norm, "x has the strides", x=tensor(256, 8).t())
    expect(norm, "not on a card", x=x.cpu())
    expect(norm, "there is no `epsilon`", x=x, epsilon=1e-5)
    # After all of which the card works.
    same(norm(x=x), right(x, None, 1e-6))


@check
def streams_and_graphs():
    norm, x = rms_norm(), tensor(4096, 4096)
    norm(x=x)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        late = torch.zeros_like(x).copy_(x)
        got = norm(x=late)
    # On the default stream nothing has been waited for yet; on its own it came behind the copy.
    side.synchronize()
    same(got, right(x, None, 1e-6))
    graph, static = torch.cuda.CUDAGraph(), tensor(512, 4096)
    norm(x=static)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = norm(x=static)
    for _ in range(2):
        static.copy_(tensor(512, 4096))
        graph.replay()
        torch.cuda.synchronize()
        same(out, right(static, None, 1e-6))


@check
def two_cards():
    if torch.cuda.device_count() < 2:
        return "not run: one card"
    norm, x = rms_norm(), tensor(128, 4096, device="cuda:1")
    got = norm(x=x)
    assert got.device.index == 1 and torch.cuda.current_device() == 0
    same(got, right(x, None, 1e-6))
    expect(norm, "different cards", x=x, weight=tensor(4096))
    ruler = harness.Ruler(1)
    assert torch.cuda.current_device() == 0
    timing = ruler.time(torch.nn.functional.gelu, lambda: tensor(*BIG, device="cuda:1"))
    assert torch.cuda.current_device() == 0
    expect(ruler.time, "this ruler is for cuda:1", torch.nn.functional.gelu, lambda: tensor(*BIG, device="cuda:0"))
    return str(timing)


@check
def the_ruler_times_calls():
    ruler, norm = harness.Ruler(), rms_norm()
    weight = tensor(BIG[1])
    made = []

    def make():
        made.append(tensor(*BIG))
        return {"x": made[-1]}

    compiled = torch.compile(lambda x: torch.nn.functional.rms_norm(x, (BIG[1],), weight, 1e-6))
    timings = ruler.compare(
        {
            "ours": lambda x: norm(x=x, weight=weight),
            "torch": lambda x: torch.nn.functional.rms_norm(x, (BIG[1],), weight, 1e-6),
            "compile": compiled,
        },
        make,
    )
    first = timings["ours"]
    assert len(made) == first.sets and first.cold and first.bytes == 4 * BIG[0] * BIG[1], first
    for timing in timings.values():
        print("   ", timing, *timing.remarks)
        assert timing.p10 <= timing.median <= timing.p90 and 0.05 < timing.of_roof < 1.1, timing
    figures["compare"] = {name: timing.median for name, timing in timings.items()}
    figures["compare"]["copy"] = first.copy.median
    # A hot one is no slower; positional inputs; a single tensor.
    small = ruler.time(torch.add, lambda: (tensor(512, 4096), tensor(512, 4096)))
    hot = ruler.time(torch.add, lambda: (tensor(512, 4096), tensor(512, 4096)), hot=True)
    assert hot.sets == 1 and not hot.cold and hot.median < small.median, (hot, small)
    torch.cuda.synchronize()
    return f"ours {100 * first.of_roof:.1f} % of a copy"


@check
def a_torch_op_beside_its_recorded_kernel():
    """Compares the GPU time of a torch op with that of its bare launch. `OPS=PATH` in the environment names the build of a
    project that `kernels init` generated with the family rmsnorm."""
    folder = os.environ.get("OPS")
    if not folder or importlib.util.find_spec("kernels") is None:
        return "not run: OPS names no built project, or the Hub library is not installed"
    import kernels

    ops, recorded, ruler, weight = kernels.get_local_kernel(pathlib.Path(folder)), rms_norm(), harness.Ruler(), tensor(BIG[1])
    timings = ruler.compare(
        {
            "recorded": lambda x: recorded(x=x, weight=weight),
            "op": lambda x: ops.rms_norm(x, weight, 1e-6),
        },
        lambda: {"x": tensor(*BIG)},
        rounds=60,
    )
    figures["op"] = {name: timing.median for name, timing in timings.items()}
    apart = timings["op"].median / timings["recorded"].median - 1
    assert abs(apart) <= 0.02, timings
    return f"{4 * BIG[0] * BIG[1] / 1e6:.0f} MB: the op {100 * apart:+.2f} %, {figures['op']}"


@check
def what_cannot_be_timed_raises():
    ruler = harness.Ruler()
    big = lambda: tensor(*BIG)  # noqa: E731
    expect(ruler.time, "cannot be captured", lambda x: x.sum().item(), big, bytes=1 << 26)
    expect(ruler.time, "no tensor on a card", torch.relu, lambda: torch.randn(4))
    expect(ruler.compare, "as many bytes", {"a": torch.relu, "b": lambda x: x.sum()}, big)
    expect(ruler.time, "above the", lambda x: x[:1] + 1, big, bytes=4 * BIG[0] * BIG[1])
    # After all of which the ruler works, and torch as well.
    timing = ruler.time(torch.relu, big)
    assert torch.relu(tensor(4)).shape == (4,)
    return str(timing)


def program(*words):
    return subprocess.run(
        [sys.executable, "-m", "kernels_harness", *map(str, words)], capture_output=True, text=True, check=False
    )


@check
def the_program_of_the_wheel_records_and_verifies():
    began = time.monotonic()
    ran = program(
        "verify", ROOT / "kernels/rmsnorm", "--filter", "add_rms_norm", "--dtype", "bf16", "--shape", "rows=34,width=4096",
        "--native-only", "--json",
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    report = json.loads(ran.stdout)
    assert report["confinement"], report.keys()
    return f"{time.monotonic() - began:.1f} s, held by {', '.join(report['confinement'])}"


def against(out, peers, project="rmsnorm", *more):
    exports = [out / f"{project}.json", out / f"{project}.md", out / f"{project}.csv"]
    ran = program(
        "bench", ROOT / "kernels" / project, "--against", peers, *more,
        *(word for path in exports for word in ("--export", path)),
    )
    print(ran.stdout, ran.stderr)
    assert ran.returncode == 0, ran.returncode
    return json.loads(exports[0].read_text()), exports


@check
def bench_against_others():
    out = pathlib.Path(sys.argv[1])
    report, exports = against(
        out, "torch,compile,liger,quack,hub:./no/such/folder", "rmsnorm", "--dtype", "bf16", "--filter", "add_rms_norm",
        "--shape", "rows=128,width=4096", "--shape", "rows=8192,width=4096",
    )
    rows = [case for case in report["cases"] if case.get("against")]
    assert rows and all(case["against"]["clock"] == "kernels" for case in rows), report["remarks"]
    apart = {}
    for case in rows:
        beside, peers = case["against"], {peer["name"]: peer for peer in case["against"]["peers"]}
        assert list(peers) == ["torch", "compile", "liger", "quack", "hub:./no/such/folder"], peers
        missing = "there is no ./no/such/folder" if importlib.util.find_spec("kernels") else "kernels cannot be imported"
        assert missing in peers["hub:./no/such/folder"]["skipped"], peers
        assert peers["torch"]["time"] and not peers["torch"].get("wrong"), peers["torch"]
        for name in ("compile", "liger", "quack"):
            assert peers[name].get("time") or peers[name]["skipped"], peers[name]
        assert beside["kernel"] and not any("ours is wrong" in remark for remark in beside["remarks"]), beside
        apart[f"{case['operation']} {case['case']}"] = beside["kernel"]["median"] / case["kernel"]["median"] - 1
    figures["against"] = {
        f"{case['operation']} {case['case']}": {
            "harness": case["kernel"]["median"],
            "ours": case["against"]["kernel"]["median"],
            **{peer["name"]: (peer.get("time") or {}).get("median") for peer in case["against"]["peers"]},
        }
        for case in rows
    }
    large = [share for name, share in apart.items() if figures["against"][name]["harness"] > 20]
    for name, share in apart.items():
        print(f"    {100 * share:+.1f} % beside the harness's own recording: {name}")
    assert large and max(map(abs, large)) < 0.03, apart
    assert "against_torch_us" in exports[2].read_text() and "| ours | torch |" in exports[1].read_text()
    return f"{len(rows)} cases; of those over 20 µs ours is within {100 * max(map(abs, large)):.1f} % of the harness's figure"


@check
def bench_against_by_torchs_clock():
    """Without the module: torch's events, the same table."""
    hidden = pathlib.Path(tempfile.mkdtemp(prefix="hidden-"))
    (hidden / "kernels_harness.py").write_text("raise ImportError('hidden')\n")
    before = os.environ.get("PYTHONPATH")
    program_path = pathlib.Path(harness.__file__).parent / "bin" / "kernels"
    os.environ["PYTHONPATH"] = str(hidden)
    try:
        ran = subprocess.run(
            [str(program_path), "bench", str(ROOT / "kernels/rmsnorm"), "--against", "torch", "--python", sys.executable,
             "--shape", "rows=8192,width=4096", "--dtype", "bf16", "--filter", "add_rms_norm", "--json"],
            capture_output=True, text=True, check=False,
        )
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.__setitem__("PYTHONPATH", before)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    rows = [case for case in json.loads(ran.stdout)["cases"] if case.get("against")]
    assert rows and all(case["against"]["clock"] == "torch" for case in rows), rows
    by_torch = {case["operation"]: case["against"]["kernel"]["median"] for case in rows}
    figures["by_torch"] = by_torch
    return f"ours by torch's events: {by_torch}"


HUB = """import torch
__all__ = ["rms_norm"]
def rms_norm(hidden_states, gamma, epsilon=1e-6):
    return torch.nn.functional.rms_norm(hidden_states, (hidden_states.shape[-1],), gamma, epsilon)
"""


@check
def bench_against_a_kernel_of_the_hub():
    """A folder that the Hub library loads; `HUB=PATH` in the environment names another, with a function rms_norm."""
    if importlib.util.find_spec("kernels") is None:
        return "not run: the Hub library is not installed"
    out, folder = pathlib.Path(sys.argv[1]), os.environ.get("HUB")
    if not folder:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="hub-"))
        variant = folder / "build" / "torch-universal"
        variant.mkdir(parents=True, exist_ok=True)
        (variant / "__init__.py").write_text(HUB)
        metadata = {
            "name": "norm", "id": "_norm_cpu_1234567", "version": 1, "license": "Apache-2.0", "python-depends": [],
            "backend": {"type": "cpu"},
        }
        (variant / "metadata.json").write_text(json.dumps(metadata))
    (out / "hub").mkdir(exist_ok=True)
    report, _ = against(out / "hub", f"torch,hub:{folder}", "rmsnorm", "--shape", "rows=8192,width=4096", "--dtype", "bf16")
    rows = {case["operation"]: case["against"]["peers"] for case in report["cases"] if case.get("against")}
    found = rows["rms_norm"][1]
    assert found.get("time") and not found.get("wrong"), found
    assert "has no function" in rows["add_rms_norm"][1].get("skipped", "") or os.environ.get("HUB"), rows
    return f"{found['time']['median']:.2f} µs"


def main():
    out = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else sys.exit(__doc__)
    out.mkdir(parents=True, exist_ok=True)
    sys.argv[1] = str(out)
    names = sys.argv[2:] or [function.__name__ for function in checks]
    wanted = [function for function in checks if function.__name__ in names]
    if len(wanted) < len(names):
        sys.exit(f"there are the checks {', '.join(function.__name__ for function in checks)}")
    os.chdir(ROOT)
    failed = []
    for function in wanted:
        began = time.monotonic()
        try:
            said = function()
            print(f"ok   {function.__name__} ({time.monotonic() - began:.1f} s){': ' + said if said else ''}", flush=True)
        except Exception:
            failed.append(function.__name__)
            print(f"FAIL {function.__name__} ({time.monotonic() - began:.1f} s)\n{traceback.format_exc()}", flush=True)
        (out / "face.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{len(wanted) - len(failed)} passed, {len(failed)} failed: {', '.join(failed)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
