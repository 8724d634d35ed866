#!/usr/bin/env python3
"""Check and time YOUR op: a .cu with an extern "C" launcher, or a Python function, against a reference of yours.

    python benchmark_example.py --write-example my        # my/geglu.cu and my/geglu.py, to start from
    python benchmark_example.py --candidate my/geglu.cu --reference my/geglu.py --shape rows=8192,inner=1280
    python benchmark_example.py --candidate my_ops:geglu --reference my/geglu.py --shape rows=8192,inner=1280 --json
    python benchmark_example.py                           # the example itself

The reference file has reference(*tensors) in plain torch: given float64 it is what is right, in --dtype it is the
baseline "torch". It may have inputs(...), which returns the tensors; else there is one normal tensor of all sizes.
Both may name sizes of --shape as parameters, inputs also dtype and device. A candidate function is called as
reference is. A launcher's arguments are read from the source: pointers to const are the inputs in their order (None:
a null pointer), other pointers the outputs; `dtype` is 0 float32, 1 float16, 2 bfloat16; `stream` is the stream;
other numbers are found in --shape by their names (rows=8192,inner=1280,eps=1e-6); with x_stride=N the rows of x are
laid N elements apart. It returns 0 or a cudaError_t.

Checked: every element against float64, and the dtype; outputs poisoned, twice with other inputs at the same addresses;
inputs unchanged; nothing written beside an output; what the timed launches wrote. Timed: CUDA graphs over buffers of more
than 4 x L2, contenders in turns, beside a copy of the same bytes. Exit code: 0 right, 1 wrong, 2 cannot run here or
wrong usage."""
import argparse
import ctypes
import functools
import importlib
import importlib.util
import inspect
import json
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

EXAMPLE_CU = r"""// GEGLU in diffusers' order: x is [rows, 2 * inner], value in the first half, gate in the second; exact erf.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };

template <typename T, int N>  // one pack of N outputs a thread
__global__ void __launch_bounds__(256) geglu(Pack<T, N>* out, const Pack<T, N>* x, int64_t packs, int64_t total) {
  const int64_t i = blockIdx.x * int64_t(256) + threadIdx.x;
  if (i >= total) return;
  const int64_t row = total >> 32 ? i / packs : unsigned(i) / unsigned(packs);  // 64-bit division is slow
  const Pack<T, N>* in = x + i + row * packs;
  const Pack<T, N> value = in[0], gate = in[packs];
  Pack<T, N> y;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float g = float(gate.v[j]);
    y.v[j] = T(float(value.v[j]) * 0.5f * g * erfcf(g * -0.70710678118654752f));  // 1 + erff cancels for g < 0
  }
  out[i] = y;
}

template <typename T, int N = 16 / sizeof(T)>
int run(void* out, const void* x, int64_t rows, int64_t inner, cudaStream_t stream) {
  if constexpr (N > 1)  // 16-byte accesses need addresses and rows of whole packs
    if ((reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(x)) % 16 != 0 || inner % N != 0)
      return run<T, 1>(out, x, rows, inner, stream);
  const int64_t packs = inner / N, total = rows * packs, blocks = (total + 255) / 256;
  if (rows < 0 || inner < 0 || blocks > 2147483647) return cudaErrorInvalidValue;
  if (total == 0) return cudaSuccess;
  geglu<T, N><<<unsigned(blocks), 256, 0, stream>>>(static_cast<Pack<T, N>*>(out), static_cast<const Pack<T, N>*>(x), packs,
                                                    total);
  return cudaGetLastError();
}

extern "C" int geglu_launch(void* out, const void* x, int64_t rows, int64_t inner, int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return run<float>(out, x, rows, inner, stream);
    case 1: return run<__half>(out, x, rows, inner, stream);
    case 2: return run<__nv_bfloat16>(out, x, rows, inner, stream);
    default: return cudaErrorInvalidValue;
  }
}
"""
EXAMPLE_PY = '''import torch


def inputs(rows, inner, dtype, device):
    return (torch.randn(rows, 2 * inner, device=device).mul(2).to(dtype),)


def reference(x):
    value, gate = x.chunk(2, dim=-1)
    return value * torch.nn.functional.gelu(gate)
'''
EXAMPLE_SHAPES, EXAMPLE_CHECKS = ["rows=8192,inner=1280", "rows=2048,inner=5120"], ["rows=5,inner=7", "rows=0,inner=64"]
GUARD = 4096  # bytes on both sides of an output, which nobody may write


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


def load_function(text, default=None):
    """Of `module:function`, `file.py:function`, or `file.py` with the default's name: (function, module)."""
    place, _, name = text.partition(":")
    if not (name or default):
        die("{0}: a .cu file, module:function or file.py:function is wanted".format(text))
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(os.path.basename(place)[:-3], place)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, os.getcwd())
            module = importlib.import_module(place)
        return getattr(module, name or default), module
    except Exception as e:
        die("{}: {}: {}".format(text, type(e).__name__, e))


@functools.lru_cache(maxsize=None)
def parameters(function):
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def call(function, tensors, values, run=None):
    """Calls with the tensors, and with those of the values that the function names behind them. run: the function compiled."""
    wanted = parameters(function)[len(tensors):]
    result = (run or function)(*tensors, **{k: v for k, v in values.items() if k in wanted})
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


class Op:
    """The reference, the inputs and the tolerance."""

    def __init__(self, torch, reference, dtype, device, tolerance):
        self.function, module = load_function(reference, "reference")
        self.torch, self.dtype, self.device, self.tolerance = torch, dtype, device, tolerance
        self.make = getattr(module, "inputs", None)

    def inputs(self, sizes):
        try:
            if self.make:
                return call(self.make, (), dict(sizes, dtype=self.dtype, device=self.device))
            shape = [n for n in sizes.values() if isinstance(n, int)]
            return (self.torch.randn(shape, device=self.device).to(self.dtype),)
        except Exception as e:
            die("inputs of {}: {}: {}".format(sizes, type(e).__name__, e))

    def right(self, inputs, sizes):
        """What the reference makes of these: not the candidate's fault where it cannot."""
        try:
            return call(self.function, inputs, sizes)
        except Exception as e:
            die("reference of {}: {}: {}".format(sizes, type(e).__name__, e))

    def placed(self, candidate, sizes, shift=0):
        """The inputs where a launcher will look for them: rows x_stride apart, and `shift` elements past an aligned address."""
        made, inputs = [], self.inputs(sizes)
        for t, name in zip(inputs, pointers(candidate, "input") + [None] * len(inputs)):
            stride = sizes.get("{}_stride".format(name))
            if t is not None and (shift or stride is not None):
                strides = row_strides(t.shape, stride)
                room = t.new_empty(shift + (strides[0] * t.shape[0] if t.dim() else 1))
                t = room.as_strided(t.shape, strides, shift).copy_(t)
            made.append(t)
        return made

    def exact(self, inputs, sizes):
        return self.right([t.double() if t is not None and t.is_floating_point() else t for t in inputs], sizes)

    def outputs(self, candidate, inputs, sizes):
        """[(output, the bytes around it, where it lies in such bytes)] for a launcher. A function makes its own."""
        made, names = [], pointers(candidate, "output")
        for like, name in zip(self.right(inputs, sizes) if names else (), names):
            strides = row_strides(like.shape, sizes.get("{}_stride".format(name)))
            size = (strides[0] * like.shape[0] if like.dim() else 1) * like.element_size()

            def view(room, like=like, strides=strides, size=size):
                return (
                    room[GUARD : GUARD + size]
                    .view(like.dtype)
                    .as_strided(like.shape, strides, GUARD // like.element_size())
                )

            room = self.torch.full((size + 2 * GUARD,), 0xA5, dtype=self.torch.uint8, device=self.device)
            made.append((poison(view(room)), room, view))
        return made

    def refill(self, inputs, sizes):
        for t, fresh in zip(inputs, self.inputs(sizes)):
            if t is not None:
                t.copy_(fresh)

    def compare(self, got, inputs, sizes):
        """The largest error of all outputs in units of what is allowed, or Wrong."""
        want = self.exact(inputs, sizes)
        if len(got) != len(want):
            raise Wrong("{} outputs where the reference has {}".format(len(got), len(want)))
        for g, like in zip(got, self.right(inputs, sizes)):
            if (g.dtype, g.device) != (like.dtype, like.device):
                raise Wrong("an output is {} on {}, not {} on {}".format(g.dtype, g.device, like.dtype, like.device))
        worst = max(worst_error(self.torch, g, w, *self.tolerance) for g, w in zip(got, want))
        if not worst <= 1.0:
            raise Wrong("an output is off by {:.3g} times what is allowed".format(worst))
        return worst


def pointers(candidate, kind):
    """The names of a launcher's pointers of a kind."""
    return [name for k, name in candidate.plan if k == kind] if isinstance(candidate, Launcher) else []


def row_strides(shape, stride=None):
    """Of a tensor whose rows are so far apart; contiguous without it."""
    strides = [1]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n if stride is None or len(strides) > 1 else stride)
    return strides[:len(shape)]


def poison(tensor):
    return tensor.fill_(float("nan") if tensor.is_floating_point() else 77)


def worst_error(torch, got, want, ulps, of_row):
    """Allowed are so many ulps of the result's type and a part of the row's largest finite element. NaN passes nowhere but
    where the reference has one; another shape is infinitely wrong."""
    if got.shape != want.shape:
        return float("inf")
    if not got.is_floating_point() or want.numel() == 0:
        return 0.0 if torch.equal(got, want.to(got.dtype)) else float("inf")
    info, want = torch.finfo(got.dtype), want.double()
    ulp = torch.ldexp(torch.full_like(want, info.eps), torch.frexp(want)[1] - 1)
    ulp = torch.where(want == 0, torch.zeros_like(ulp), ulp).clamp_min(info.tiny * info.eps)
    largest = torch.where(want.isfinite(), want.abs(), torch.zeros_like(want))
    largest = largest.amax(-1, keepdim=True) if want.dim() else largest
    ratio, rounded = (got.double() - want).abs() / (ulps * ulp + of_row * largest), want.to(got.dtype)
    ratio = torch.where((got == rounded) | (got.isnan() & rounded.isnan()), torch.zeros_like(ratio), ratio)
    return float("inf") if ratio.isnan().any() else ratio.max().item()


def unchanged(tensors, before):
    return all(t is None or ((t == b) | ((t != t) & (b != b))).all() for t, b in zip(tensors, before))


def check(torch, op, candidate, sizes, shift=0):
    """Two calls with other inputs at the same addresses. shift: one element past an aligned address. The worst error."""
    inputs, kept, worst = op.placed(candidate, sizes, shift), [], 0.0
    for _ in range(2):
        op.refill(inputs, sizes)
        before = [t if t is None else t.clone() for t in inputs]
        outputs = op.outputs(candidate, inputs, sizes)
        torch.use_deterministic_algorithms(True, warn_only=True)  # then torch.empty is filled with NaN
        try:
            got = candidate(inputs, [o for o, _, _ in outputs], sizes)
        finally:
            torch.use_deterministic_algorithms(False)
        for out, room, view in outputs:
            clean = torch.full_like(room, 0xA5)
            view(clean).copy_(out)
            if not torch.equal(clean, room):
                raise Wrong("it wrote outside an output")
        if not unchanged(inputs, before):
            raise Wrong("it changed an input")
        if not all(isinstance(o, torch.Tensor) for o in got):
            raise Wrong("it returned {}, not tensors".format(", ".join(type(o).__name__ for o in got)))
        taken = {t.untyped_storage().data_ptr() for t in (*inputs, *kept) if t is not None and t.numel()}
        if any(o.numel() and o.untyped_storage().data_ptr() in taken for o in got):
            raise Wrong("it returned memory of an input or of an earlier result")
        kept += got
        worst = max(worst, op.compare(got, inputs, sizes))
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


def bench(torch, op, candidate, peers, sizes, rounds, size_in_bytes):
    """One shape, timed: its row of the report."""
    inputs = op.inputs(sizes)
    moved = size_in_bytes or sum(t.numel() * t.element_size()
                                 for t in (*inputs, *op.right(inputs, sizes)) if t is not None)
    if not moved:
        return {"notes": ["empty, so not timed"]}
    l2, sets, left_out = torch.cuda.get_device_properties(0).L2_cache_size, [], {}
    while len(sets) < min(400, max(4, -(-4 * l2 // max(1, moved)) + 1)):
        sets.append(op.placed(candidate, sizes))

    def calls(one):
        return [lambda i=i, o=[o for o, _, _ in op.outputs(one, i, sizes)]: one(i, o, sizes) for i in sets]

    contenders = {"candidate": calls(candidate), **copies(torch, moved, len(sets))}
    for name, peer in peers.items():
        try:
            mine = calls(peer)
            got = mine[0]()
            if name not in ("torch", "compile", "compile-max"):  # those may round in between, as models do
                op.compare(got, sets[0], sizes)
            contenders[name] = mine
        except Exception as e:
            left_out[name] = (" ".join(str(e).split()) or type(e).__name__)[:300]

    def prepare(held):  # other inputs at the same addresses
        for inputs in sets:
            op.refill(inputs, sizes)
        for o in (o for kept in held["candidate"] for o in kept):
            poison(o)
        for i in {0, len(sets) // 2, len(sets) - 1}:
            given[i] = [t if t is None else t.clone() for t in sets[i]]

    given = {}
    us, held = measure(torch, contenders, rounds, prepare)
    try:
        if not all(unchanged(sets[i], before) for i, before in given.items()):
            raise Wrong("an input was changed")
        worst = max(op.compare(held["candidate"][i], before, sizes) for i, before in given.items())
    except Wrong as e:  # a launch on another stream is in no graph, so a replay is without it
        said = "; does each launch use the stream that it is given?" if us["candidate"]["clock"] == "graph" else ""
        raise Wrong("what the timed launches wrote is wrong: {}{}".format(e, said))
    mine, roof = us["candidate"]["median"], min(us[n]["median"] for n in us if n.startswith("copy"))
    ring, percent, notes = len(sets) * moved / l2, 100 * roof / mine, []
    if ring < 4:
        notes.append("hot: all buffers together are {:.2f} of the L2".format(ring))
    if percent > 103 and ring >= 4:
        notes.append("faster than a copy: does it read and write all of the bytes (--bytes)?")
    if us["candidate"]["clock"] == "host":
        notes.append("it could not be captured in a CUDA graph, so launches are timed too")
    return {
        "bytes": moved,
        "ring_over_l2": ring,
        "us": us,
        "gb_per_s": moved / mine / 1e3,
        "percent_of_copy": percent,
        "faster_than": {n: us[n]["median"] / mine for n in us if n in peers},
        "left_out": left_out,
        "timed_error": worst,
        "notes": notes,
    }


def parse_sizes(text):
    try:
        pairs = [entry.split("=") for entry in text.split(",")]
        return {name.strip(): float(value) if re.search(r"[.eE]", value) else int(value) for name, value in pairs}
    except ValueError:
        die("{}: sizes are names with numbers, as in rows=8192,width=4096".format(text))


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--candidate", nargs="+", metavar="WHAT", help=".cu files, module:function or file.py:function")
    p.add_argument("--reference", metavar="FILE.py[:NAME]", help="what is right, and the inputs")
    p.add_argument("--shape", action="append", metavar="SIZES", help="rows=8192,width=4096; may be repeated")
    p.add_argument(
        "--check", action="append", metavar="SIZES", default=[], help="a shape to check and not to time: odd, empty"
    )
    p.add_argument(
        "--misaligned", action="store_true", help="check with inputs one element past an aligned address as well"
    )
    p.add_argument("--check-only", action="store_true", help="no timing")
    p.add_argument("--cpu", action="store_true", help="check a Python candidate without a card; no timing")
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--against", default="torch,compile", metavar="PEERS",
                   help="timed beside it: torch, compile, compile-max, .cu files, functions; none [torch,compile]")
    p.add_argument("--rounds", type=int, default=50, help="timed rounds [50]")
    p.add_argument(
        "--bytes", type=int, default=0, help="least bytes that a call must move [inputs and outputs, each once]"
    )
    p.add_argument("--ulps", type=float, default=2.0, help="allowed error of an element in units in its last place [2]")
    p.add_argument("--of-row", type=float, default=2.0**-18, help="and in parts of its row's largest element [2**-18]")
    p.add_argument("--symbol", help="the launcher, where the sources have several")
    p.add_argument("--nvcc-flags", default="", metavar="FLAGS", help='as in --nvcc-flags="-Iinclude -lineinfo"')
    p.add_argument("--write-example", metavar="DIR", help="write geglu.cu and geglu.py there, and end")
    p.add_argument("--seed", type=int, help="of the inputs [drawn, and told]")
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    a = p.parse_args()
    if bool(a.candidate) != bool(a.reference) or bool(a.candidate) != bool(a.shape or a.check) and not a.write_example:
        p.error("--candidate, --reference and --shape belong together")
    if not (0 <= a.ulps < 1e9 and 0 <= a.of_row < 1):
        p.error("--ulps and --of-row are no tolerance")
    if a.rounds < 1:
        p.error("--rounds is 1 at least")
    return a


def write_example(folder):
    os.makedirs(folder, exist_ok=True)
    paths = os.path.join(folder, "geglu.cu"), os.path.join(folder, "geglu.py")
    for path, text in zip(paths, (EXAMPLE_CU, EXAMPLE_PY)):
        if os.path.exists(path):
            die(path + " is there already")
        with open(path, "w") as f:
            f.write(text)
    return paths


def main():
    a = arguments()
    if a.write_example:
        print("\n".join(write_example(a.write_example)))
        return 0
    try:
        import torch
    except ImportError:
        die("torch is not installed for {} (pip install torch)".format(sys.executable))
    if not a.cpu and not torch.cuda.is_available():
        die(
            "no CUDA device is visible to torch {}; --cpu checks a Python candidate without one".format(
                torch.__version__
            )
        )
    out = stdout_alone() if a.json else None
    if not a.candidate:
        a.shape, a.check = EXAMPLE_SHAPES, EXAMPLE_CHECKS
        folder = tempfile.TemporaryDirectory(prefix="example-")  # there until this function ends
        cu, a.reference = write_example(folder.name)
        a.candidate = [a.reference + ":reference" if a.cpu else cu]
    seed = torch.seed() % 2**31 if a.seed is None else a.seed
    torch.manual_seed(seed)
    op = Op(torch, a.reference, getattr(torch, a.dtype), "cpu" if a.cpu else "cuda", (a.ulps, a.of_row))
    report = {
        "script": "benchmark_example",
        "verdict": "PASS",
        "device": "cpu" if a.cpu else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "dtype": a.dtype,
        "seed": seed,
        "candidate": " ".join(a.candidate),
        "reference": a.reference,
        "tolerance": {"ulps": a.ulps, "of_row": a.of_row},
        "results": [],
    }

    def load(texts):
        if any(t.endswith(".cu") for t in texts):
            if a.cpu:
                die("a .cu needs a card; --cpu is for Python candidates")
            return Launcher(torch, texts, a.symbol, a.nvcc_flags.split())
        function = load_function(texts[0])[0]
        return lambda inputs, outputs, sizes: call(function, inputs, sizes)

    def peer(name):
        if name == "torch":
            return lambda i, o, sizes: call(op.function, i, sizes)
        if name in ("compile", "compile-max"):
            mode = {"mode": "max-autotune-no-cudagraphs"} if name == "compile-max" else {}
            run = torch.compile(op.function, dynamic=False, **mode)
            return lambda i, o, sizes: call(op.function, i, sizes, run)
        return load(name.split())

    row = {}
    try:
        candidate = load(a.candidate)
        shapes = [(parse_sizes(s), True) for s in a.shape or ()] + [(parse_sizes(s), False) for s in a.check]
        with torch.no_grad():
            for sizes, timed in shapes:
                row = {"shape": sizes, "check": "FAIL"}
                report["results"].append(row)
                row["worst_error"] = check(torch, op, candidate, sizes)
                row["check"] = "PASS"
            for row, (sizes, timed) in zip(report["results"], shapes):
                if timed and not (a.cpu or a.check_only):
                    names = [n for n in a.against.split(",") if n and n != "none"]
                    torch.compiler.reset()
                    row.update(bench(torch, op, candidate, {n: peer(n) for n in names}, sizes, a.rounds, a.bytes))
            for row, (sizes, timed) in zip(report["results"], shapes):
                if a.misaligned:  # last: a misaligned access ends the process's use of the card
                    row["misaligned_error"] = check(torch, op, candidate, sizes, shift=1)
    except torch.cuda.OutOfMemoryError as e:
        die("{}: the card's memory is too small: {}".format(row.get("shape", ""), " ".join(str(e).split())[:200]))
    except Exception as e:
        row["check"], report["verdict"] = "FAIL", "FAIL"
        report["failure"] = "{}: {}".format(row.get("shape", "build"), str(e).strip() or type(e).__name__)
    if a.json:
        print(json.dumps(report), file=out, flush=True)
    else:
        show(report)
    return 0 if report["verdict"] == "PASS" else 1


def show(report):
    print("{device}, torch {torch}, {dtype}, seed {seed}; candidate {candidate}; microseconds a call, median [p10 p90]"
          .format(**report))
    print("allowed: {ulps:g} ulps and {of_row:.3g} of the row's largest".format(**report["tolerance"]))
    for row in report["results"]:
        print(
            "{}: {}, error at most {:.2f} of what is allowed".format(
                ",".join("{}={}".format(*size) for size in row["shape"].items()),
                row["check"],
                row.get("worst_error", float("nan")),
            )
        )
        for name, us in sorted(row.get("us", {}).items(), key=lambda entry: entry[1]["median"]):
            more = "{:.0f} GB/s, {:.1f} % of the copy".format(row["gb_per_s"], row["percent_of_copy"])
            if name != "candidate":
                more = "{:.2f} x".format(row["faster_than"][name]) if name in row["faster_than"] else ""
            print("  {:<18}{:9.2f} [{:.2f} {:.2f}]  {}".format(name, us["median"], us["p10"], us["p90"], more))
        for name, why in row.get("left_out", {}).items():
            print("  {:<18}left out: {}".format(name, why))
        for note in row.get("notes", ()):
            print("  note: " + note)
    print(report["verdict"] + (": " + report["failure"] if "failure" in report else ""))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
