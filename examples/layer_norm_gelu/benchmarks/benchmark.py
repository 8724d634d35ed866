"""Times every op beside torch eager and torch.compile, and what a call costs on the host.

    python benchmarks/benchmark.py [--only TEXT] [--json] [--list] [--rounds N] [--no-compile] [--host-only]

Device times: each contender is captured in a CUDA graph that goes through copies of its inputs, four times the L2 in
all, and keeps its outputs, so that nothing is in the cache from the call before. The contenders take turns, round by
round; a table shows medians and, behind ±, half of the span from the first to the third quartile. `copy` is a copy of
as many bytes as the op must read and write: no op that does can be faster by more than the cache's help.

Host times: calls in a row that nobody waits for, on 128 x 4096, functional ops with their outputs allocated inside.

Each op's result is held against torch's first; a row whose results differ is an error, and has no time.
"""

import argparse
import dataclasses
import importlib
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Callable, Dict

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


class Draw:
    """Normal numbers of a device and a dtype."""

    def __init__(self, device: str, dtype: torch.dtype):
        self.device, self.dtype = device, dtype

    def __call__(self, *shape: int, dtype=None) -> torch.Tensor:
        return torch.randn(shape, device=self.device, dtype=torch.float32).to(dtype or self.dtype)


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table.

    make: draw -> the arguments by name; each call has a set of its own
    call: (kernel, **arguments) -> a tensor or a tuple of them
    eager: (**arguments, **shared) -> the same in torch's functions, as the model has it
    shared: draw -> what eager takes beside the arguments, one for all calls
    """

    name: str
    make: Callable[..., Dict[str, object]]
    call: Callable[..., object]
    eager: Callable[..., object]
    shared: Callable[..., Dict[str, object]] = lambda draw: {}
    dtype: torch.dtype = torch.bfloat16


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [v for v in values if isinstance(v, torch.Tensor)]


def load():
    import kernels

    folder = pathlib.Path(os.environ.get("KERNEL_BUILD", HERE.parent / "build"))
    if not folder.is_dir():
        sys.exit(f"{folder} is not there: build the kernel first, or set KERNEL_BUILD")
    return kernels.get_local_kernel(folder)


def size_of(values) -> int:
    return sum(v.numel() * v.element_size() for v in values)


def capture(call, sets):
    """A graph of a call for each set of arguments, and its outputs."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for arguments in sets[:3]:
            call(**arguments)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call(**arguments) for arguments in sets]
    return graph, kept


def microseconds(graph, launches: int, replays: int) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1000 / (launches * replays)


def summary(times):
    quartiles = statistics.quantiles(times, n=4)
    return {"median_us": statistics.median(times), "spread_us": (quartiles[2] - quartiles[0]) / 2, "rounds": len(times)}


def differs(ours, theirs, dtype) -> str:
    """Why two results are not the same but for rounding, or nothing."""
    for one, other in zip(ours, theirs):
        if one.shape != other.shape:
            return f"shape {tuple(one.shape)} for {tuple(other.shape)}"
        off = (one.float() - other.float()).abs().max().item()
        # torch's functions round each step of a composition, to bits that a step may have cancelled.
        allowed = 4 * torch.finfo(dtype).eps * other.float().abs().max().item()
        if not off <= allowed:
            return f"{off:.3g} off, with {allowed:.3g} allowed"
    return ""


def measure(kernel, row: Row, rounds: int, with_compile: bool):
    draw = Draw("cuda", row.dtype)
    first, shared = row.make(draw), row.shared(draw)
    outputs = tensors(row.call(kernel, **first))
    moved = size_of(tensors(first)) + size_of(outputs)
    if wrong := differs(outputs, tensors(row.eager(**first, **shared)), row.dtype):
        return {"row": row.name, "error": f"the result is not torch's: {wrong}"}

    cache = torch.cuda.get_device_properties(0).L2_cache_size
    count = min(256, max(2, -(-4 * cache // moved)))
    sets = [first] + [row.make(draw) for _ in range(count - 1)]
    contenders = {
        "kernel": lambda **arguments: row.call(kernel, **arguments),
        "eager": lambda **arguments: row.eager(**arguments, **shared),
    }
    if with_compile:
        compiled = torch.compile(row.eager, dynamic=False)
        contenders["compile"] = lambda **arguments: compiled(**arguments, **shared)
    graphs = {name: capture(call, sets) for name, call in contenders.items()}
    half = max(moved // 2 // 512, 1) * 512  # whole accesses from row to row
    source = torch.empty(count, half, dtype=torch.uint8, device="cuda")
    graphs["copy"] = capture(lambda source: source.clone(), [{"source": s} for s in source])

    times = {name: [] for name in graphs}
    replays = {}
    for name, (graph, _) in graphs.items():
        microseconds(graph, count, 3)
        replays[name] = max(1, int(2000 / (count * microseconds(graph, count, 2))))  # some 2 ms a round
    for i in range(rounds):
        order = list(graphs)[i % len(graphs) :] + list(graphs)[: i % len(graphs)]
        for name in order:
            times[name].append(microseconds(graphs[name][0], count, replays[name]))
    result = {"row": row.name, "dtype": str(row.dtype).removeprefix("torch."), "bytes": moved, "copies": count}
    return result | {name: summary(t) for name, t in times.items()}


def host_costs(kernel, rounds: int):
    """Microseconds a call, of ours and torch's functions in turn."""
    draw = Draw("cuda", torch.bfloat16)
    x, weight = draw(128, 4096), draw(4096)
    packed, heads, angle = draw(128, 8192), draw(1, 128, 32, 128), draw(1, 128, 64, dtype=torch.float32)
    cos, sin = angle.cos(), angle.sin()
    norm = torch.nn.functional.rms_norm
    calls = {"empty_like": lambda: torch.empty_like(x), "F.rms_norm": lambda: norm(x, (4096,), weight, 1e-6)}
    ours = {
        "rms_norm": lambda: kernel.rms_norm(x, weight, 1e-6),
        "rms_norm, rounded first": lambda: kernel.rms_norm(x, weight, 1e-6, 0.0, True),
        "add_rms_norm": lambda: kernel.add_rms_norm(x, x, weight, 1e-6),
        "geglu": lambda: kernel.geglu(packed),
        "rope": lambda: kernel.rope(heads, heads, cos, sin),
        "layer_norm": lambda: kernel.layer_norm(x, weight, weight),
        "adaln": lambda: kernel.adaln(x, weight, weight),
    }
    calls |= {name: call for name, call in ours.items() if hasattr(kernel, name.split(",")[0])}
    times = {name: [] for name in calls}
    with torch.no_grad():
        for i in range(rounds + 3):
            for name, call in calls.items():
                torch.cuda.synchronize()
                start = time.perf_counter_ns()
                for _ in range(500):
                    call()
                spent = time.perf_counter_ns() - start
                if i >= 3:
                    times[name].append(spent / 500 / 1000)
    torch.cuda.synchronize()
    return {name: summary(t) for name, t in times.items()}


def cell(value) -> str:
    return f"{value['median_us']:.2f} ±{value['spread_us']:.2f}" if value else "—"


def table(head, lines) -> str:
    widths = [max(len(str(line[i])) for line in [head, *lines]) for i in range(len(head))]
    shown = [head, ["-" * w for w in widths], *lines]
    return "\n".join(
        "  ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(line, widths)))
        for line in shown
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains it")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--list", action="store_true", help="the rows' names; needs no card")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--host-only", action="store_true", help="the cost of a call alone")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be at least 2: a spread needs two")

    modules = [importlib.import_module(path.stem) for path in sorted(HERE.glob("rows_*.py"))]
    rows = [row for module in modules for row in module.ROWS if options.only in row.name]
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    if not rows and not options.host_only:
        parser.error(f"no row has {options.only!r} in its name; --list shows them")
    if not torch.cuda.is_available():
        print("benchmark.py: there is no CUDA device, and nothing is timed without one", file=sys.stderr)
        return 1

    kernel = load()
    results = []
    with torch.no_grad():
        for row in [] if options.host_only else rows:
            torch._dynamo.reset()
            results.append(measure(kernel, row, options.rounds, not options.no_compile))
            print(f"{len(results)} of {len(rows)}: {row.name}", file=sys.stderr, flush=True)
            torch.cuda.empty_cache()
    host = host_costs(kernel, options.rounds)
    failed = [r for r in results if "error" in r]
    if options.json:
        about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "kernel": kernel.__name__}
        print(json.dumps(about | {"rows": results, "host": host}, indent=2))
        return 1 if failed else 0

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}. µs a call, buffers in device memory.\n")
    lines = []
    for r in results:
        if "error" in r:
            lines.append([r["row"], "error", *["—"] * 6])
            continue
        ours = r["kernel"]["median_us"]
        times = [f"{r[name]['median_us'] / ours:.2f}" if name in r else "—" for name in ("eager", "compile")]
        of_copy = f"{100 * r['copy']['median_us'] / ours:.0f} %"
        lines.append([r["row"], *[cell(r.get(n)) for n in ("kernel", "eager", "compile", "copy")], *times, of_copy])
    if lines:
        print(table(["op", "kernel", "eager", "compile", "copy", "× eager", "× compile", "copy / kernel"], lines), "\n")
    base = host.get("F.rms_norm")
    print("On the host, µs a call.\n")
    shown = [[name, cell(t), f"{t['median_us'] / base['median_us']:.2f}"] for name, t in host.items()]
    print(table(["call", "µs", "of F.rms_norm's"], shown))
    for r in failed:
        print(f"{r['row']}: {r['error']}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
