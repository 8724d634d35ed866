#!/usr/bin/env python3
"""Check and time an RMSNorm kernel beside F.rms_norm, the chain of plain operations, torch.compile of both, and a
copy of the same bytes; without a kernel, these alone: what there is to beat.

    python benchmark_rmsnorm.py                                     # the baselines
    python benchmark_rmsnorm.py --source csrc/rmsnorm.cu            # has rms_norm_launch; compiled with nvcc
    python benchmark_rmsnorm.py --kernel build --dtype float16      # a `kernels build --torch` folder, or FILE.py
    python benchmark_rmsnorm.py --kernel OWNER/NAME --version 1 --download --json

extern "C" int rms_norm_launch takes, in any order and by these names: out and (const) x, weight; rows, width, eps;
int dtype (0 float32, 1 float16, 2 bfloat16); stream; if it likes out_stride, x_stride (elements), weight_offset,
round_first. weight may be a null pointer. A kernel from Python has rms_norm(x, weight, eps), maybe with weight_offset
and round_first behind.

    y = x * rsqrt(mean(x * x) + eps) * (weight + weight_offset)      round_first: to the dtype before the weight

Checked against float64, half an ulp and fp32's rounding: widths from 1 to 65536, odd ones, empty, a row of zeros,
rows in which eps decides, without weight, misaligned; inputs unchanged; outputs poisoned; what the timed launches
wrote. Timed as benchmark_example.py does. Exit code: 0 right, 1 wrong, 2 cannot run here or wrong usage."""
import argparse
import ctypes
import importlib.util
import inspect
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

# name, rows, width, eps, weight: rows are batch x tokens (x heads for Qwen3's q and k norms)
SHAPES = [
    ("LTX-Video norm1, 49 frames", 5376, 2048, 1e-6, 0),
    ("LTX-Video norm1, 161 frames", 16128, 2048, 1e-6, 0),
    ("LTX-Video norm_q, 49 frames", 5376, 2048, 1e-5, 1),
    ("Qwen3-8B, 1 token", 1, 4096, 1e-6, 1),
    ("Qwen3-8B, 128 tokens", 128, 4096, 1e-6, 1),
    ("Qwen3-8B, 8192 tokens", 8192, 4096, 1e-6, 1),
    ("Qwen3-8B q_norm, 8192 tokens", 262144, 128, 1e-6, 1),
]
CHECKS = [(0, 2048), (3, 0), (1, 1), (3, 7), (5, 128), (3, 2047), (4, 2056), (2, 12288), (2, 65536)]
PEERS = ("torch", "composed", "compile", "compile-composed", "liger")


class Wrong(Exception):
    """What the candidate did wrong: exit code 1."""


def die(message):
    print("error: " + message, file=sys.stderr)
    raise SystemExit(2)


def stdout_alone():
    """Where --json writes. What a candidate prints, C's and a kernel's printf too, goes to stderr from here on."""
    out, sys.stdout = sys.stdout, sys.stderr
    if out is sys.__stdout__:
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
    return out


def find_nvcc():
    wheel = os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "cu13", "bin", "nvcc")
    homes = [os.path.join(os.environ[v], "bin", "nvcc") for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    for path in [os.environ.get("NVCC"), *homes, shutil.which("nvcc"), wheel, "/usr/local/cuda/bin/nvcc"]:
        if path and os.path.isfile(path):
            return path
    die("nvcc was not found: set NVCC or CUDA_HOME, or install the CUDA toolkit")


def parse_launcher(text, symbol=None):
    """(name, [(kind, name)]) of an extern "C" function; kind: input, output, stream, dtype or a ctypes type."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    found = dict(re.findall(r'extern\s+"C"\s+(?:int|cudaError_t)\s+(\w+)\s*\(([^)]*)\)', text))
    if symbol:
        found = {symbol: found[symbol]} if symbol in found else {}
    if len(found) != 1:
        die('one extern "C" int NAME(...) is wanted; found: {}. --symbol chooses'.format(", ".join(found) or "none"))
    name, rest = found.popitem()
    kinds = {"double": ctypes.c_double, "float": ctypes.c_float}
    wide, narrow = "int64_t uint64_t long size_t ssize_t ptrdiff_t intptr_t uintptr_t", "int int32_t uint32_t bool unsigned"
    kinds.update(dict.fromkeys(wide.split(), ctypes.c_int64))
    kinds.update(dict.fromkeys((narrow + " short int16_t uint16_t char int8_t uint8_t").split(), ctypes.c_int))
    plan = []
    for entry in filter(None, (" ".join(p.split()) for p in rest.split(","))):
        kind, label = (re.match(r"(.*?)(\w+)$", entry.replace("__restrict__", "")) or die(name + ": " + entry)).groups()
        if label in ("stream", "dtype"):
            plan.append((label, label))
        elif "*" in kind:
            plan.append(("input" if re.search(r"\bconst\b", kind.split("*")[0]) else "output", label))
        else:
            words = re.findall(r"\w+", kind)
            scalar = next((kinds[w] for w in kinds if w in words), None)  # the wider ones first: unsigned long long
            plan.append((scalar or die("{}: the type of {!r} is not known".format(name, entry)), label))
    return name, plan


class Launcher:
    """A launcher compiled with nvcc; it writes into outputs that it is given."""

    def __init__(self, torch, sources, symbol=None, flags=()):
        missing = [s for s in sources if not os.path.isfile(s)]
        if missing:
            die("no such file: " + ", ".join(missing))
        self.torch, (self.symbol, self.plan) = torch, parse_launcher("\n".join(open(s).read() for s in sources), symbol)
        nvcc = find_nvcc()
        arch = "-gencode=arch=compute_{0}{1},code=sm_{0}{1}".format(*torch.cuda.get_device_capability())
        with tempfile.TemporaryDirectory(prefix="candidate-") as folder:  # compiled anew each time: headers change too
            lib = os.path.join(folder, "candidate.so")
            cmd = [nvcc, "-O3", "-std=c++17", arch, "-shared", "-Xcompiler", "-fPIC",
                   "-L" + os.path.join(os.path.dirname(nvcc), "..", "lib"), "-o", lib, *flags, *sources]
            done = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            if done.returncode:
                raise Wrong("nvcc failed: " + " ".join(cmd) + "\n" + done.stdout)
            self.function = getattr(ctypes.CDLL(lib), self.symbol)
        pointer = {
            "input": ctypes.c_void_p,
            "output": ctypes.c_void_p,
            "stream": ctypes.c_void_p,
            "dtype": ctypes.c_int,
        }
        self.function.argtypes = [pointer.get(kind, kind) for kind, _ in self.plan]

    def __call__(self, inputs, outputs, sizes):
        torch, given, values = self.torch, {"input": iter(inputs), "output": iter(outputs)}, []
        codes = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
        for kind, name in self.plan:
            if kind in given:
                tensor = next(given[kind], die)
                if tensor is die:
                    die("{}: the reference has no {} for the pointer {!r}".format(self.symbol, kind, name))
                values.append(None if tensor is None else tensor.data_ptr())
            elif kind == "dtype":
                values.append(next((codes[t.dtype] for t in inputs if t is not None and t.dtype in codes), 0))
            elif kind == "stream":
                values.append(torch.cuda.current_stream().cuda_stream)
            elif name in sizes:
                values.append((float if kind in (ctypes.c_float, ctypes.c_double) else int)(sizes[name]))
            else:
                die("{0} wants the number {1!r}: add {1}=NUMBER to --shape".format(self.symbol, name))
        error = self.function(*values)
        if error:
            raise Wrong("{} returned {}".format(self.symbol, error))
        return tuple(outputs)


def load_kernel(a):
    """rms_norm of FILE.py, of a build folder, or of a Hub repository through the Hub's library."""
    path = pathlib.Path(a.kernel).resolve()
    try:
        if path.suffix == ".py":
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module.rms_norm
        if not a.download:
            os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported
        import kernels

        if path.is_dir():
            return kernels.get_local_kernel(path).rms_norm
        if a.version is None:
            die("--kernel {}: no such folder; a Hub repository needs --version".format(a.kernel))
        return kernels.get_kernel(a.kernel, version=a.version, trust_remote_code=a.trust_remote_code).rms_norm
    except Exception as e:
        die("--kernel {}: {}: {}".format(a.kernel, type(e).__name__, " ".join(str(e).split())[:400]))


def make_candidate(torch, a):
    """(call(x, weight, out, eps, offset, first) -> output, which of offset and first it knows)"""
    if a.source:
        launcher = Launcher(torch, a.source, a.symbol, a.nvcc_flags.split())

        def call(x, weight, out, eps, offset, first):
            rows, width = x.shape
            sizes = dict(rows=rows, width=width, x_stride=width, out_stride=width, eps=eps, weight_offset=offset,
                         round_first=int(first))
            return launcher([x, weight], [out], sizes)[0]

        return call, {name for _, name in launcher.plan}
    function = load_kernel(a)
    try:
        known = set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        known = set()

    def call(x, weight, out, eps, offset, first):
        extra = {k: v for k, v in (("weight_offset", offset), ("round_first", first)) if v}
        return function(x, weight, eps, **extra)

    return call, known


def poison(tensor):
    return tensor.fill_(float("nan") if tensor.is_floating_point() else 77)


def error_over_bound(torch, out, x, weight, eps, offset=0.0, first=False):
    """Largest error in units of half an ulp of the result and fp32's rounding before it; infinite for NaN."""
    if not isinstance(out, torch.Tensor) or (out.shape, out.dtype, out.device) != (x.shape, x.dtype, x.device):
        return float("inf")
    if x.numel() == 0:
        return 0.0
    info, ref = torch.finfo(x.dtype), x.double()
    ref = ref * torch.rsqrt(ref.square().mean(-1, keepdim=True) + eps)
    scale = 1.0 if weight is None else weight.double() + offset
    ref, step = ref * scale, info.tiny * info.eps
    # Below the smallest normal a rounding errs by half a subnormal step; the first of two is scaled by the weight.
    bound = (info.eps / 2 * (2.02 if first else 1.01) + 4e-6) * ref.abs() + step * (
        1.0 if weight is None else 1.0 + scale.abs()
    )
    ratio = (out.double() - ref).abs() / bound
    return ratio.max().item() if torch.isfinite(ratio).all() else float("inf")


def make_inputs(torch, rows, width, weighted, dtype, device):
    x = torch.randn(rows, width, device=device).mul_(3).to(dtype)
    return x, torch.rand(width, device=device).add_(0.5).to(dtype) if weighted else None


def check(torch, candidate, known, shapes, dtype, device):
    """The worst error over its bound, or Wrong with the case."""
    variants = [(0, 0.0, False), (1, 0.0, False)]
    variants += [(1, 1.0, False)] if "weight_offset" in known else []
    variants += [(1, 0.0, True)] if "round_first" in known else []
    worst = 0.0
    for rows, width in CHECKS + shapes:
        for (weighted, offset, first), shift in [(v, 0) for v in variants] + [(variants[1], 1)]:
            case = "rows={},width={},weight={},weight_offset={},round_first={}{}".format(
                rows, width, weighted, offset, int(first), ", misaligned" if shift else "")
            x, weight = make_inputs(torch, rows, width, weighted, dtype, device)
            if shift:
                x = torch.empty(x.numel() + 1, device=device, dtype=dtype)[1:].view(x.shape)
            kept = []
            for _ in range(2):  # with other values at the same addresses
                given = make_inputs(torch, rows, width, weighted, dtype, device)
                if rows > 2:
                    given[0][1].zero_()
                    given[0][2].mul_(1e-4)  # eps decides
                x.copy_(given[0])
                if weighted:
                    weight.copy_(given[1])
                room = torch.full((rows * width + 256,), 7.0, device=device, dtype=dtype)
                out = poison(room[128:128 + rows * width].view(rows, width))
                torch.use_deterministic_algorithms(True, warn_only=True)  # then torch.empty is filled with NaN
                try:
                    got = candidate(x, weight, out, 1e-6, offset, first)
                except Exception as e:
                    raise Wrong("{}: {}".format(case, str(e).strip() or type(e).__name__))
                finally:
                    torch.use_deterministic_algorithms(False)
                ratio = error_over_bound(torch, got, *given, 1e-6, offset, first)
                if not ratio <= 1.0:
                    raise Wrong("{}: the error is {:.3g} times its bound".format(case, ratio))
                same = torch.equal(x, given[0]) and (not weighted or torch.equal(weight, given[1]))
                if not same or not (torch.cat([room[:128], room[-128:]]) == 7.0).all():
                    raise Wrong("{}: it changed its input, or wrote outside its output".format(case))
                taken = [t.untyped_storage().data_ptr() for t in (x, *kept)]
                if x.numel() and got.untyped_storage().data_ptr() in taken:
                    raise Wrong("{}: it returned its input, or an earlier result's memory".format(case))
                kept.append(got)
                worst = max(worst, ratio)
    return worst


def measure(torch, contenders, rounds, prepare):
    """contenders: name -> one callable a buffer set. Returns name -> microseconds a call, and name -> outputs.

    Outputs live until their set's next turn, so that nobody writes into memory that is still in L2. A pause on the card
    before each start keeps the host ahead of it, so that the launch of a graph is not timed."""
    replays, held, samples = {}, {}, {name: [] for name in contenders}
    turns = {name: -(-8 // len(calls)) for name, calls in contenders.items()}
    for name, calls in contenders.items():
        held[name] = [None] * len(calls)

        def turn(calls=calls, kept=held[name], turns=turns[name]):
            for _ in range(turns):
                for i, one in enumerate(calls):
                    kept[i] = None
                    kept[i] = one()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for one in calls[:3]:
                one()
        torch.cuda.synchronize()
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph):
                turn()
            replays[name] = graph.replay, "graph"
        except (
            Exception
        ):  # it waits for the card, or works on another stream: timed by the host's clock, launches and all
            torch.cuda.synchronize()
            torch.cuda.set_stream(
                stream
            )  # a capture that broke leaves its own, and a generator that believes it goes on
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            generator.graphsafe_set_state(generator.clone_state())
            replays[name] = turn, "host"
        replays[name][0]()
    torch.cuda.synchronize()
    prepare(held)  # from here on only what is timed writes the outputs that are checked afterwards
    order = list(replays)
    for number in range(rounds + 2):
        random.shuffle(order)
        for name in order:
            replay, clock = replays[name]
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            began = time.perf_counter()
            if clock == "graph":
                torch.cuda._sleep(400_000)
            start.record()
            replay()
            end.record()
            torch.cuda.synchronize()
            took = start.elapsed_time(end) * 1e3 if clock == "graph" else (time.perf_counter() - began) * 1e6
            if number >= 2:
                samples[name].append(took / len(held[name]) / turns[name])
    return {name: dict(spread(s), clock=replays[name][1]) for name, s in samples.items()}, held


def spread(samples):
    s = sorted(samples)
    return {name: s[min(len(s) - 1, int(len(s) * at))] for name, at in (("median", 0.5), ("p10", 0.1), ("p90", 0.9))}


def copies(torch, moved, count):
    """Two ways to copy half the bytes; the faster one is the roof. Whole pages: odd sizes are slower."""
    words = -(-moved // 8192) * 1024
    pairs = [(torch.randint(0, 99, (words,), device="cuda", dtype=torch.int32),
              torch.empty(words, device="cuda", dtype=torch.int32)) for _ in range(count)]
    return {"copy": [lambda s=s, d=d: d.copy_(s) for s, d in pairs],
            "copy by a kernel": [lambda s=s, d=d: torch.bitwise_not(s, out=d) for s, d in pairs]}


def make_peers(torch, names, left_out):
    """name -> function(x, weight, eps)"""
    def fused(x, weight, eps):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)

    def composed(x, weight, eps):  # as the models' modules write it
        y = (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)).to(x.dtype)
        return y if weight is None else weight * y

    peers = {"torch": fused, "composed": composed, "compile": torch.compile(fused, dynamic=False),
             "compile-composed": torch.compile(composed, dynamic=False)}
    if "liger" in names:
        try:
            from liger_kernel.ops.rms_norm import LigerRMSNormFunction

            peers["liger"] = lambda x, weight, eps: LigerRMSNormFunction.apply(x, weight, eps, 0.0, "llama", False)
        except ImportError as e:
            left_out["liger"] = str(e)
    return {name: peers[name] for name in names if name in peers}


def bench(torch, candidate, shape, dtype, names, rounds):
    """One shape, timed: its row of the report."""
    name, rows, width, eps, weighted = shape
    moved = (2 * rows * width + (width if weighted else 0)) * dtype.itemsize
    l2, sets, left_out = torch.cuda.get_device_properties(0).L2_cache_size, [], {}
    while len(sets) < min(400, max(4, -(-4 * l2 // max(1, moved)) + 1)):
        x, weight = make_inputs(torch, rows, width, weighted, dtype, "cuda")
        sets.append((x, weight, torch.empty_like(x)))
    contenders = copies(torch, 2 * rows * width * dtype.itemsize, len(sets))
    if candidate:
        contenders["kernel"] = [lambda s=s: candidate(*s, eps, 0.0, False) for s in sets]
    torch.compiler.reset()
    peers = make_peers(torch, names, left_out)
    for peer, function in peers.items():
        try:
            function(*sets[0][:2], eps)
            contenders[peer] = [lambda s=s, f=function: f(s[0], s[1], eps) for s in sets]
        except Exception as e:
            left_out[peer] = (" ".join(str(e).split()) or type(e).__name__)[:300]

    def prepare(held):  # other inputs at the same addresses
        for inputs in sets:
            for t, fresh in zip(inputs, make_inputs(torch, rows, width, weighted, dtype, "cuda")):
                if t is not None:
                    t.copy_(fresh)
        for out in held.get("kernel", ()):
            poison(out)
        for i in {0, len(sets) // 2, len(sets) - 1}:
            given[i] = [t if t is None else t.clone() for t in sets[i][:2]]

    given = {}
    us, held = measure(torch, contenders, rounds, prepare)
    roof = min(us[n]["median"] for n in us if n.startswith("copy"))
    row = {"name": name, "shape": {"rows": rows, "width": width, "weight": weighted, "eps": eps}, "bytes": moved,
           "ring_over_l2": len(sets) * moved / l2, "us": us, "left_out": left_out,
           "percent_of_copy": {n: 100 * roof / us[n]["median"] for n in us if not n.startswith("copy")},
           "gb_per_s": {n: moved / t["median"] / 1e3 for n, t in us.items()}}
    if candidate:
        row["faster_than"] = {n: us[n]["median"] / us["kernel"]["median"] for n in us if n in peers}
        row["timed_error"] = max(error_over_bound(torch, held["kernel"][i], *before, eps) for i, before in given.items())
        if any(t is not None and not torch.equal(t, b) for i in given for t, b in zip(sets[i], given[i])):
            raise Wrong("{}: what is timed changed an input".format(name))
        if not row["timed_error"] <= 1.0:
            raise Wrong(
                "{}: what the timed launches wrote is wrong, {:.3g} times its bound".format(name, row["timed_error"])
            )
    return row


def parse_sizes(text):
    try:
        pairs = [entry.split("=") for entry in text.split(",")]
        return {name.strip(): float(value) if re.search(r"[.eE]", value) else int(value) for name, value in pairs}
    except ValueError:
        die("{}: sizes are names with numbers, as in rows=8192,width=4096".format(text))


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group()
    what.add_argument("--source", nargs="+", metavar="FILE.cu", help="sources with rms_norm_launch")
    what.add_argument("--kernel", metavar="WHAT", help="a build folder, FILE.py, or OWNER/NAME of the Hub")
    p.add_argument("--symbol", default="rms_norm_launch", help="the launcher [rms_norm_launch]")
    p.add_argument("--nvcc-flags", default="", metavar="FLAGS", help='as in --nvcc-flags="-Iinclude"')
    p.add_argument("--version", type=int, help="of OWNER/NAME")
    p.add_argument("--download", action="store_true", help="allow the network for OWNER/NAME")
    p.add_argument(
        "--trust-remote-code", action="store_true", help="for publishers that the Hub's library does not trust"
    )
    p.add_argument(
        "--shape", action="append", metavar="SIZES", help="rows=8192,width=4096[,weight=0][,eps=1e-5]; repeatable"
    )
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--against", default="torch,composed,compile,compile-composed", metavar="PEERS",
                   help=", ".join(PEERS) + "; none [all but liger]")
    p.add_argument("--check-only", action="store_true", help="no timing")
    p.add_argument("--cpu", action="store_true", help="check a FILE.py without a card; no timing")
    p.add_argument("--rounds", type=int, default=50, help="timed rounds [50]")
    p.add_argument("--seed", type=int, help="of the inputs [drawn, and told]")
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    a = p.parse_args()
    a.names = [n for n in a.against.split(",") if n and n != "none"]
    if set(a.names) - set(PEERS):
        p.error("--against knows " + ", ".join(PEERS))
    if (a.cpu or a.check_only) and not (a.kernel or a.source):
        p.error("--cpu and --check-only want a kernel")
    shapes = [parse_sizes(s) for s in a.shape or ()]
    if any(not {"rows", "width"} <= set(s) <= {"rows", "width", "weight", "eps"} for s in shapes):
        p.error("--shape has rows and width, maybe weight and eps")
    if any(not isinstance(s[n], int) or s[n] < 0 for s in shapes for n in ("rows", "width")):
        p.error("rows and width are whole numbers, 0 at least")
    if a.rounds < 1:
        p.error("--rounds is 1 at least")
    a.shapes = [
        (",".join("{}={}".format(*i) for i in s.items()), s["rows"], s["width"], s.get("eps", 1e-6), s.get("weight", 1))
        for s in shapes
    ] or SHAPES
    return a


def main():
    a = arguments()
    try:
        import torch
    except ImportError:
        die("torch is not installed for {} (pip install torch)".format(sys.executable))
    if not a.cpu and not torch.cuda.is_available():
        die("no CUDA device is visible to torch {}; --cpu checks a FILE.py without one".format(torch.__version__))
    if not hasattr(torch.nn.functional, "rms_norm"):
        die("torch {} has no F.rms_norm; 2.4 or later is needed".format(torch.__version__))
    if a.cpu and a.source:
        die("a .cu needs a card; --cpu is for --kernel FILE.py")
    out = stdout_alone() if a.json else None
    seed, dtype, device = (
        torch.seed() % 2**31 if a.seed is None else a.seed,
        getattr(torch, a.dtype),
        "cpu" if a.cpu else "cuda",
    )
    torch.manual_seed(seed)
    report = {
        "script": "benchmark_rmsnorm",
        "verdict": "PASS" if a.kernel or a.source else "BASELINES",
        "device": "cpu" if a.cpu else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "dtype": a.dtype,
        "seed": seed,
        "kernel": a.kernel or " ".join(a.source or ()) or None,
        "worst_error": None,
        "results": [],
    }
    try:
        with torch.no_grad():
            candidate = None
            if report["kernel"]:
                candidate, known = make_candidate(torch, a)
                shapes = [(s[1], s[2]) for s in a.shapes] if device == "cuda" or a.shape else []
                report["worst_error"] = check(torch, candidate, known, shapes, dtype, device)
            for shape in a.shapes if not (a.cpu or a.check_only) else ():
                if shape[1] * shape[2]:
                    report["results"].append(bench(torch, candidate, shape, dtype, a.names, a.rounds))
    except torch.cuda.OutOfMemoryError as e:
        die("the card's memory is too small: " + " ".join(str(e).split())[:200])
    except Exception as e:
        report["verdict"], report["failure"] = "FAIL", str(e).strip() or type(e).__name__
    if a.json:
        print(json.dumps(report), file=out, flush=True)
    else:
        show(report)
    return 1 if report["verdict"] == "FAIL" else 0


def show(report):
    print(
        "{device}, torch {torch}, {dtype}, seed {seed}; kernel {kernel}; microseconds a call, median [p10 p90]".format(
            **report
        )
    )
    for row in report["results"]:
        print("{}: {}".format(row["name"], "cold" if row["ring_over_l2"] >= 4 else "hot, buffers fit into L2"))
        for name, us in sorted(row["us"].items(), key=lambda entry: entry[1]["median"]):
            more = "{:.1f} % of the copy".format(row["percent_of_copy"][name]) if name in row["percent_of_copy"] else ""
            more += ", kernel {:.2f} x".format(row["faster_than"][name]) if name in row.get("faster_than", ()) else ""
            print("  {:<18}{:9.2f} [{:.2f} {:.2f}]  {:5.0f} GB/s  {}".format(
                name, us["median"], us["p10"], us["p90"], row["gb_per_s"][name], more))
        for name, why in row["left_out"].items():
            print("  {:<18}left out: {}".format(name, why))
    if report["worst_error"] is not None:
        print("checked: error at most {:.2f} of its bound".format(report["worst_error"]))
    print(report["verdict"] + (": " + report["failure"] if "failure" in report else ""))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
