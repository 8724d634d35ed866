#!/usr/bin/env python3
"""RMSNorm and residual add + RMSNorm beside every peer, on one card, in one run, as one JSON.

A row is one shape and dtype. Each candidate's launches over `n` rotating buffer sets (inputs, weights and outputs; n sets
hold more than 4 x the L2) are captured in a CUDA graph of its own, and the graphs are replayed in turn, round after round,
beside copies of the same bytes. Times are microseconds a launch: median, tenth and ninetieth percentile over the rounds.

Nobody wins by being wrong: before timing, outputs are filled with NaN, the graph is replayed, and the first and last set
are compared whole with double precision. Nobody is left out in silence: what is not installed, fails or would come too
late is named with its reason, in the table and under `skipped` in the JSON.

Peers are compiled first, in parallel processes that share compile caches; whatever they time on the card they time alone,
one after another, so that no autotuner chooses amid the others' noise.

    python3 benches/gpu/peers.py --library build/librmsnorm.so --blog blog/librmsnorm.so --out peers.json

`--blog` is a shared object with the launchers `rmsnorm_forward_bf16` and `rmsnorm_residual_forward_bf16` of
burtenshaw/kernel-skill; a file of the same name ending in .txt says which revision it is.
"""

import argparse
import ctypes
import fcntl
import gc
import importlib
import importlib.metadata
import json
import math
import multiprocessing
import os
import pathlib
import queue
import random
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

START = time.monotonic()
# Read when torch._inductor and quack are imported, so set before. The processes compile in parallel: each on one thread.
CACHE = os.environ.setdefault("PEERS_CACHE", tempfile.mkdtemp(prefix="peers-"))
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{CACHE}/inductor")
os.environ.setdefault("TRITON_CACHE_DIR", f"{CACHE}/triton")
os.environ.setdefault("QUACK_CACHE_DIR", f"{CACHE}/quack")
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
# Whether there is a card is asked without the driver: a driver that was started does not survive the fork below.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

EPS = 1e-6
# Rows x width. Only ours and the copies are timed in f16 and f32.
RMS_NORM = [
    (1024, 2048), (2048, 2048), (4096, 2048), (16384, 3072), (128, 4096), (1024, 4096), (2048, 4096), (8192, 4096),
    (262144, 128), (32768, 8192),
]
ADD_RMS_NORM = [(1024, 4096), (8192, 4096)]
OPERATIONS = ("rms_norm", "add_rms_norm")
DTYPE_CODE = {"f32": 0, "f16": 1, "bf16": 2}
SIZE = {"f32": 4, "f16": 2, "bf16": 2}
# Relative error in the 2-norm. One rounding to bf16 is about 1.7e-3, two 2.4e-3.
TOLERANCE = {"bf16": 4e-3, "f16": 6e-4, "f32": 4e-6}
PEERS = ["torch", "compile", "compile-max", "liger", "quack", "blog"]
NAMES = ["kernels", *PEERS]
FORMULATIONS = ["plain", "fused"]
MODES = {"compile": None, "compile-max": "max-autotune-no-cudagraphs"}
PAGE = 4096
MIN_BYTES = 200e6
GRAPH_US = 1500.0
# Imported once, instead of in each process.
BEFORE_FORK = [
    "torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.graph", "torch._inductor.scheduler",
    "torch._inductor.codegen.triton", "torch._inductor.runtime.triton_heuristics",
]
PACKAGES = ["torch", "triton", "liger-kernel", "quack-kernels", "nvidia-cutlass-dsl", "apache-tvm-ffi"]


class Row:
    """One shape and dtype of an operation."""

    def __init__(self, operation, rows, width, dtype):
        self.operation, self.rows, self.width, self.dtype = operation, rows, width, dtype

    @property
    def adds(self):
        """Whether a residual is added first: two tensors are read and two written, instead of one and one."""
        return self.operation == "add_rms_norm"

    @property
    def bytes(self):
        """The fewest bytes that must move."""
        return ((4 if self.adds else 2) * self.rows * self.width + self.width) * SIZE[self.dtype]

    def __str__(self):
        return f"{self.operation} {self.rows}x{self.width} {self.dtype}"


def all_rows():
    """The rows, the ones that matter most first: a run that is cut short has them."""
    rows = [Row("rms_norm", r, w, "bf16") for r, w in RMS_NORM] + [Row("add_rms_norm", r, w, "bf16") for r, w in ADD_RMS_NORM]
    rows += [Row(operation, 8192, 4096, dtype) for operation in OPERATIONS for dtype in ("f16", "f32")]
    return rows


def torch_dtype(name):
    import torch

    return {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[name]


# ---- formulas -------------------------------------------------------------------------------------------------------


def plain(x, weight):
    """The formula in fp32, cast at the end."""
    import torch

    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS) * weight.float()).to(x.dtype)


def fused(x, weight):
    """The framework's own operation."""
    import torch.nn.functional

    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPS)


def add_plain(x, residual, weight):
    total = x + residual
    return total, plain(total, weight)


def add_fused(x, residual, weight):
    total = x + residual
    return total, fused(total, weight)


def formula(row, formulation):
    return globals()[f"add_{formulation}" if row.adds else formulation]


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def compiled(function, mode):
    """`function` through torch.compile. Its earlier compilations are forgotten: every shape is specialised, and the limit
    on recompilations of one function (after which it silently runs eagerly) is never met."""
    import torch

    torch._dynamo.reset()
    return torch.compile(function, mode=mode, dynamic=False, fullgraph=True)


# ---- compilation in parallel ----------------------------------------------------------------------------------------


class CardLock:
    """One process on the card at a time. An flock belongs to the open file, so each process opens its own."""

    def __init__(self):
        self.file = open(f"{CACHE}/card.lock", "w")

    def __enter__(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        fcntl.flock(self.file, fcntl.LOCK_UN)


def inputs(row, sets):
    """`sets` sets of random x, residual (or None) and weight. Weights lie around 1 and differ: ones would hide a fault."""
    import torch

    dtype = torch_dtype(row.dtype)
    x = torch.empty(sets, row.rows, row.width, dtype=dtype, device="cuda").normal_()
    residual = torch.empty_like(x).normal_() if row.adds else None
    # A multiple of 16 bytes apart for every width here.
    weight = torch.empty(sets, row.width, dtype=dtype, device="cuda").normal_(1.0, 0.25)
    return x, residual, weight


def arguments(row, x, residual, weight, i):
    return (x[i], residual[i], weight[i]) if row.adds else (x[i], weight[i])


def compile_task(task):
    """Fills the caches for one task: (candidate, formulation, row)."""
    import torch

    name, formulation, row = task
    with CardLock():
        tensors = inputs(row, 1)
        torch.cuda.synchronize()
    given = arguments(row, *tensors, 0)
    if name == "quack":
        call = quack_call(row)
    else:
        call = compiled(formula(row, formulation), MODES[name])
    call(*given)
    torch.cuda.synchronize()
    del tensors, given
    torch.cuda.empty_cache()


def work(tasks, done):
    """A compiling process."""
    import torch
    from torch._inductor.runtime import triton_heuristics

    torch.set_grad_enabled(False)
    configure()
    bench = triton_heuristics.CachingAutotuner.bench
    lock = CardLock()

    def alone(self, *args, **kwargs):
        with lock:
            return bench(self, *args, **kwargs)

    triton_heuristics.CachingAutotuner.bench = alone
    while True:
        try:
            index, task = tasks.get(timeout=1)
        except queue.Empty:
            return
        began = time.monotonic()
        try:
            compile_task(task)
            done.put((index, None, time.monotonic() - began))
        except BaseException as error:  # named by the parent; the next task is another's
            done.put((index, describe(error), time.monotonic() - began))


def configure():
    """Every shape is its own; a fallback to eager is an error, not a time."""
    import torch._dynamo

    config = torch._dynamo.config
    config.automatic_dynamic_shapes = False
    config.suppress_errors = False
    if hasattr(config, "fail_on_recompile_limit_hit"):
        config.fail_on_recompile_limit_hit = True


def describe(error):
    if os.environ.get("PEERS_TRACE"):
        traceback.print_exception(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def driver_started():
    """Whether this process has started the CUDA driver: it would be broken in a forked child."""
    import torch

    if torch.cuda.is_initialized():
        return True
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    not_initialized = 3
    return driver.cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p())) != not_initialized


def compile_all(rows, wanted, workers, seconds):
    """Compiles what the peers need, and returns {(candidate, formulation, str(row)): why not} of what failed or came too
    late."""
    tasks, widths = [], set()
    for row in rows:
        for name in ("compile-max", "compile"):
            if name in wanted and row.dtype == "bf16":
                tasks += [(name, formulation, row) for formulation in FORMULATIONS]
        if "quack" in wanted and row.dtype == "bf16" and (row.operation, row.width) not in widths:
            widths.add((row.operation, row.width))
            tasks.append(("quack", "", row))
    tasks.sort(key=lambda task: ["compile-max", "quack", "compile"].index(task[0]))
    failed = {}
    if not tasks:
        return failed
    for module in BEFORE_FORK:
        importlib.import_module(module)
    way = "spawn" if driver_started() else "fork"
    context = multiprocessing.get_context(way)
    todo, done = context.Queue(), context.Queue()
    for numbered in enumerate(tasks):
        todo.put(numbered)
    processes = [context.Process(target=work, args=(todo, done), daemon=True) for _ in range(min(workers, len(tasks)))]
    gc.freeze()
    for process in processes:
        process.start()
    # While they compile: what the measuring needs. Not before: these may start the driver.
    needed = ["liger_kernel.ops.rms_norm", "liger_kernel.ops.fused_add_rms_norm"] if "liger" in wanted else []
    for module in needed + (["quack.rmsnorm"] if "quack" in wanted else []):
        try:
            importlib.import_module(module)
        except Exception as error:  # told again, and by name, in each row
            print(f"{module}: {describe(error)}")
    waiting, slowest = set(range(len(tasks))), (0.0, "")
    deadline = time.monotonic() + seconds
    while waiting and time.monotonic() < deadline:
        try:
            index, error, took = done.get(timeout=0.5)
        except queue.Empty:
            if not any(process.is_alive() for process in processes):
                break
            continue
        waiting.discard(index)
        name, formulation, row = tasks[index]
        slowest = max(slowest, (took, f"{name} {formulation} {row}"))
        if error:
            failed[name, formulation, str(row)] = error
    for index in waiting:
        name, formulation, row = tasks[index]
        failed[name, formulation, str(row)] = f"not compiled within {seconds:.0f} s"
    for process in processes:
        process.kill() if waiting else None
        process.join()
    print(f"compiled {len(tasks) - len(failed)} of {len(tasks)} in {len(processes)} processes ({way}); the slowest, {slowest[1]}, took {slowest[0]:.1f} s [{clock()}]")
    return failed


# ---- candidates -----------------------------------------------------------------------------------------------------


class Skip(Exception):
    """Why a candidate is not in a row."""


class Candidate:
    """`call(i)` launches on set i on the current stream and returns its outputs: (out,) or (sum, out)."""

    def __init__(self, name, call, allocates, label=None):
        self.name, self.call, self.allocates, self.label = name, call, allocates, label or name
        self.graph = self.held = None
        self.samples, self.late = [], []


def imported(module, package):
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise Skip(f"{package} cannot be imported: {describe(error)}") from error


def load(path, what):
    if not path:
        raise Skip(f"no {what} given")
    try:
        return ctypes.CDLL(os.path.abspath(path))
    except OSError as error:
        raise Skip(str(error)) from error


def symbol(library, name, types, returns):
    try:
        function = getattr(library, name)
    except AttributeError as error:
        raise Skip(f"the library has no {name}") from error
    function.argtypes, function.restype = types, returns
    return function


P, I64, F32, I32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int


def stream():
    import torch

    return torch.cuda.current_stream().cuda_stream


def ours(args, row, tensors, outputs):
    x, residual, weight = tensors
    library = load(args.library, "--library")
    adds = row.adds
    launch = symbol(
        library,
        f"{row.operation}_launch",
        [P] * (5 if adds else 3) + [I64] * (6 if adds else 4) + [F32, F32, I32, I32, P],
        I32,
    )
    code, width = DTYPE_CODE[row.dtype], row.width

    def call(i):
        out = outputs[-1][i]
        if adds:
            total = outputs[0][i]
            rc = launch(
                out.data_ptr(), total.data_ptr(), x[i].data_ptr(), residual[i].data_ptr(), weight[i].data_ptr(),
                row.rows, width, width, width, width, width, EPS, 0.0, 0, code, stream(),
            )
        else:
            rc = launch(
                out.data_ptr(), x[i].data_ptr(), weight[i].data_ptr(), row.rows, width, width, width, EPS, 0.0, 0, code, stream()
            )
        if rc:
            raise RuntimeError(f"{row.operation}_launch returned {rc}")
        return tuple(output[i] for output in outputs)

    return [Candidate("kernels", call, False)]


def eager(args, row, tensors, outputs):
    function = formula(row, "fused")
    return [Candidate("torch", lambda i: as_tuple(function(*arguments(row, *tensors, i))), True)]


def inductor(name):
    def make(args, row, tensors, outputs, failed):
        made, reasons = [], []
        for formulation in FORMULATIONS:
            reason = failed.get((name, formulation, str(row)))
            if not reason and time.monotonic() - START > args.seconds:
                reason = f"the run's {args.seconds:.0f} s are over"
            if reason:
                reasons.append(f"{formulation}: {reason}")
                continue

            # Compiled when the call is first made, and captured before the next candidate's compilation forgets it.
            def call(i, formulation=formulation, state={}):
                if not state:
                    state["function"] = compiled(formula(row, formulation), MODES[name])
                return as_tuple(state["function"](*arguments(row, *tensors, i)))

            call.__defaults__ = (formulation, {})
            made.append(Candidate(name, call, True, f"{name} ({formulation})"))
        if not made:
            raise Skip("; ".join(reasons))
        return made

    return make


def liger(args, row, tensors, outputs):
    # The casting mode is that of the formula here: everything in fp32, one cast at the end.
    if row.adds:
        function = imported("liger_kernel.ops.fused_add_rms_norm", "liger-kernel").LigerFusedAddRMSNormFunction.apply
        x, residual, weight = tensors

        def call(i):
            out, total = function(x[i], residual[i], weight[i], EPS, 0.0, "gemma", False)
            return total, out

    else:
        function = imported("liger_kernel.ops.rms_norm", "liger-kernel").LigerRMSNormFunction.apply
        x, _, weight = tensors

        def call(i):
            return (function(x[i], weight[i], EPS, 0.0, "gemma", False, None),)

    return [Candidate("liger", call, True)]


def quack_ahead(row, directory):
    """QuACK's kernel from a shared object made of what its cache exports. As its rmsnorm_fwd does, allocates the outputs."""
    import torch

    path = pathlib.Path(directory) / f"{row.operation}_{row.width}.so"
    if not path.is_file():
        raise Skip(f"no {path}")
    launch = imported("tvm_ffi", "apache-tvm-ffi").load_module(str(path))["func"]
    if row.adds:

        def call(x, residual, weight):
            out, total = torch.empty_like(x), torch.empty_like(x)
            launch(x, weight, None, residual, out, total, None, None, EPS)
            return total, out

        return call

    def call(x, weight):
        out = torch.empty_like(x)
        launch(x, weight, None, None, out, None, None, None, EPS)
        return (out,)

    return call


def quack_call(row):
    function = imported("quack.rmsnorm", "quack-kernels").rmsnorm_fwd
    if row.adds:

        def call(x, residual, weight):
            out, total, _ = function(x, weight, residual=residual, eps=EPS)
            return total, out

        return call
    return lambda x, weight: (function(x, weight, eps=EPS)[0],)


def quack(args, row, tensors, outputs, failed):
    for (name, _, label), reason in failed.items():
        operation, shape, _ = label.split()
        if name == "quack" and operation == row.operation and shape.endswith(f"x{row.width}"):
            raise Skip(reason)
    function = quack_ahead(row, args.quack) if args.quack else quack_call(row)
    return [Candidate("quack", lambda i: function(*arguments(row, *tensors, i)), True)]


def blog(args, row, tensors, outputs):
    x, residual, weight = tensors
    library = load(args.blog, "--blog")
    name = "rmsnorm_residual_forward_bf16" if row.adds else "rmsnorm_forward_bf16"
    launch = symbol(library, name, [P] * (5 if row.adds else 3) + [I32] * 3 + [F32, P], None)

    def call(i):
        pointers = [outputs[-1][i].data_ptr()]
        pointers += [outputs[0][i].data_ptr()] if row.adds else []
        pointers += [x[i].data_ptr()] + ([residual[i].data_ptr()] if row.adds else []) + [weight[i].data_ptr()]
        launch(*pointers, 1, row.rows, row.width, EPS, stream())
        return tuple(output[i] for output in outputs)

    return [Candidate("blog", call, False)]


MAKERS = {
    "kernels": ours,
    "torch": eager,
    "compile": inductor("compile"),
    "compile-max": inductor("compile-max"),
    "liger": liger,
    "quack": quack,
    "blog": blog,
}


def copy_kernel():
    """A copy in 16-byte pieces, made once."""
    if not hasattr(copy_kernel, "kernel"):
        import triton
        import triton.language as tl

        @triton.jit
        def copy_words(to, source, words, BLOCK: tl.constexpr):
            at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
            tl.store(to + at, tl.load(source + at, mask=at < words), mask=at < words)

        copy_kernel.kernel = copy_words
    return copy_kernel.kernel


def copies(row, sets):
    """Copies of half the row's bytes (so that as many move), in the forms that are fast: the fastest is the roof. A copy
    of no whole number of pages is slow in the driver, and so are some round sizes: hence two sizes."""
    import torch

    half = math.ceil(row.bytes / 2)
    pages = math.ceil(half / PAGE) * PAGE
    size = pages + PAGE
    source = torch.empty(sets, size // 4, dtype=torch.int32, device="cuda").random_()
    to = torch.empty_like(source)

    def memcpy(count):
        def call(i):
            to[i, : count // 4].copy_(source[i, : count // 4])
            return (to[i, : count // 4],)

        return call

    def triton_copy(block, warps):
        words = math.ceil(half / 16) * 4
        kernel = copy_kernel()

        def call(i):
            kernel[(math.ceil(words / block),)](to[i], source[i], words, BLOCK=block, num_warps=warps)
            return (to[i, :words],)

        return call

    made = [
        Candidate("copy", memcpy(pages), False, "memcpy, whole pages"),
        Candidate("copy", memcpy(size), False, "memcpy, whole pages and one"),
        Candidate("copy", triton_copy(1024, 4), False, "16-byte copy, 4 KiB a block"),
        Candidate("copy", triton_copy(4096, 8), False, "16-byte copy, 16 KiB a block"),
    ]
    return made, source


# ---- measuring ------------------------------------------------------------------------------------------------------


def capture(candidate, sets, cycles, on):
    """Captures `cycles` turns through the sets. A candidate that allocates keeps each set's outputs until the set's next
    turn, so that its outputs rotate as the preallocated ones do and cannot stay in the L2."""
    import torch

    with torch.cuda.stream(on):
        for i in range(min(3, sets)):
            candidate.call(i)
        on.synchronize()
        graph, held = torch.cuda.CUDAGraph(), [None] * sets
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(cycles):
                for i in range(sets):
                    held[i] = None
                    held[i] = candidate.call(i)
        except BaseException:
            try:
                graph.capture_end()
            except RuntimeError:
                pass  # the first error is the one to tell
            raise
        graph.capture_end()
    candidate.graph, candidate.held = graph, held


def reference(row, tensors, i, begin, end):
    """Sum and norm of some rows in double precision."""
    import torch

    x, residual, weight = tensors
    total = x[i, begin:end].double()
    if row.adds:
        total = total + residual[i, begin:end].double()
    norm = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + EPS) * weight[i].double()
    return (total, norm) if row.adds else (norm,)


def relative_error(row, tensors, candidate, i):
    """The greatest relative error of the outputs of set i; NaN where something was not written."""
    import torch

    step = max(1, 2**25 // row.width)
    off = torch.zeros(2, dtype=torch.float64, device="cuda")
    size = torch.zeros(2, dtype=torch.float64, device="cuda")
    for begin in range(0, row.rows, step):
        end = min(row.rows, begin + step)
        wanted = reference(row, tensors, i, begin, end)
        for k, (got, want) in enumerate(zip(candidate.held[i], wanted, strict=True)):
            off[k] += (got[begin:end].double() - want).pow(2).sum()
            size[k] += want.pow(2).sum()
    n = 2 if row.adds else 1
    errors = (off / size).sqrt()[:n].tolist()
    return math.nan if any(math.isnan(error) for error in errors) else max(errors)


def check(row, tensors, candidate, sets, source):
    """What is wrong with the candidate's outputs, or None."""
    import torch

    chosen = sorted({0, sets - 1})
    for i in chosen:
        for output in candidate.held[i]:
            output.fill_(0 if candidate.name == "copy" else math.nan)
    candidate.graph.replay()
    torch.cuda.synchronize()
    for i in chosen:
        if candidate.name == "copy":
            (got,) = candidate.held[i]
            if not torch.equal(got, source[i, : got.numel()]):
                return "is no copy"
            continue
        error = relative_error(row, tensors, candidate, i)
        if not error <= TOLERANCE[row.dtype]:
            return f"relative error {error:.2e}, allowed {TOLERANCE[row.dtype]:.0e}"
    return None


def measure(candidates, launches, rounds):
    """Replays all graphs in turn, in a fresh order each round, and returns how many samples were dropped because the host
    was late. A pause on the card before each start keeps the host ahead of it, so that no launch is timed."""
    import torch

    order, drop, late = list(candidates), 2, 0
    shuffle = random.Random(1)
    events = {
        id(candidate): [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(rounds + drop)]
        for candidate in candidates
    }
    for number in range(rounds + drop):
        shuffle.shuffle(order)
        torch.cuda._sleep(2_000_000)
        before, behind = None, set()
        for candidate in order:
            begin, end = events[id(candidate)][number]
            torch.cuda._sleep(400_000)
            begin.record()
            if before is not None and before.query():
                behind.add(id(candidate))
            candidate.graph.replay()
            end.record()
            before = end
        torch.cuda.synchronize()
        if number < drop:
            continue
        for candidate in order:
            begin, end = events[id(candidate)][number]
            taken = begin.elapsed_time(end) * 1e3 / launches
            candidate.late.append(taken) if id(candidate) in behind else candidate.samples.append(taken)
            late += id(candidate) in behind
    return late


def percentile(samples, p):
    ordered = sorted(samples)
    at = p * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def run_row(args, row, failed, on):
    """One row of the report."""
    import torch

    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    sets = max(4, math.ceil(max(4.2 * l2, MIN_BYTES) / row.bytes))
    # From the bytes at 3 TB/s, and no launch under 2 us.
    guess = max(2.0, row.bytes / 3e6)
    cycles = max(1, math.ceil(GRAPH_US / (guess * sets)))
    tensors = inputs(row, sets)
    outputs = [torch.empty_like(tensors[0]) for _ in range(2 if row.adds else 1)]
    skipped, wrong, candidates = {}, [], []
    roof, source = copies(row, sets)

    def admit(made):
        """Captures and checks them; those that fail are named."""
        for candidate in made:
            try:
                capture(candidate, sets, cycles, on)
                fault = check(row, tensors, candidate, sets, source)
            except Exception as error:
                skipped[candidate.label] = describe(error)
                continue
            candidate.fault = fault
            if fault:
                print(f"  WRONG {row}: {candidate.label}: {fault}")
            candidates.append(candidate)

    admit(roof)
    for name in NAMES:
        if name != "kernels" and row.dtype != "bf16":
            continue
        if name not in args.wanted:
            skipped[name] = "left out by --without"
            continue
        try:
            maker = MAKERS[name]
            given = (args, row, tensors, outputs)
            made = maker(*given, failed) if name in ("compile", "compile-max", "quack") else maker(*given)
        except Skip as error:
            skipped[name] = str(error)
            continue
        except Exception as error:
            skipped[name] = describe(error)
            continue
        admit(made)

    for candidate in candidates:
        candidate.graph.replay()
    torch.cuda.synchronize()
    late = measure(candidates, sets * cycles, args.rounds)
    best = {}
    for candidate in candidates:
        if len(candidate.samples) < args.rounds // 2:
            print(f"  UNSTEADY {row}: {candidate.label}: the host was late in {len(candidate.late)} of {args.rounds} rounds, all taken")
            candidate.samples += candidate.late
        candidate.median = statistics.median(candidate.samples)
        key = (candidate.fault is not None, candidate.median)
        if candidate.name not in best or key < best[candidate.name][0]:
            best[candidate.name] = (key, candidate)
    chosen = {name: candidate for name, (_, candidate) in best.items()}
    for name, candidate in chosen.items():
        if candidate.fault and name != "copy":
            wrong.append(name)
    if "copy" not in chosen or chosen["copy"].fault:
        raise RuntimeError(f"{row}: no copy could be timed: {skipped}")
    rounded = {name: round(candidate.median, 3) for name, candidate in chosen.items()}
    for name, reason in skipped.items():
        print(f"  SKIPPED {row}: {name}: {reason}")
    if late:
        print(f"  {row}: {late} samples dropped: the host was late")
    return {
        "operation": row.operation,
        "shape": {"rows": row.rows, "width": row.width},
        "dtype": row.dtype,
        "mb": round(row.bytes / 1e6, 1),
        "copy_us": rounded.pop("copy"),
        "times_us": {name: rounded[name] for name in NAMES if name in rounded},
        "spread": {
            name: [round(percentile(chosen[name].samples, p), 3) for p in (0.1, 0.9)] for name in ["copy", *NAMES] if name in chosen
        },
        "wrong": wrong,
        "chosen": {name: chosen[name].label for name in ("copy", "compile", "compile-max") if name in chosen},
        "sets": sets,
        "launches": sets * cycles,
        "skipped": skipped,
    }


# ---- report ---------------------------------------------------------------------------------------------------------


def clock():
    return f"{time.monotonic() - START:.0f} s"


def versions(args):
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    note = pathlib.Path(args.blog).with_suffix(".txt") if args.blog else None
    if note and note.is_file():
        found["blog"] = note.read_text().strip()
    return found


def driver():
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=True, timeout=20
        )
        return said.stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown: {describe(error)}"


def best_peer(entry):
    """The fastest peer that is right, with its time."""
    times = {name: time_us for name, time_us in entry["times_us"].items() if name != "kernels" and name not in entry["wrong"]}
    return min(times.items(), key=lambda item: item[1]) if times else (None, None)


def label(entry):
    shape = entry["shape"]
    return f"{entry['operation']} {shape['rows']}x{shape['width']} {entry['dtype']}"


def table(entries):
    """µs a launch; * the best peer; ! wrong; - not timed."""
    lines = [f"{'us a launch':34}{'MB':>8}{'copy':>9}" + "".join(f"{name:>13}" for name in NAMES) + "  of copy  peer/ours"]
    for entry in entries:
        peer, peer_us = best_peer(entry)
        cells = []
        for name in NAMES:
            value = entry["times_us"].get(name)
            mark = "!" if name in entry["wrong"] else "*" if name == peer else " "
            cells.append(f"{'-' if value is None else f'{value:.2f}'}{mark}".rjust(13))
        mine = entry["times_us"].get("kernels")
        of_copy = f"{100 * entry['copy_us'] / mine:6.1f} %" if mine else f"{'-':>8}"
        ahead = f"{peer_us / mine:8.3f}x" if mine and peer else f"{'-':>9}"
        lines.append(f"{label(entry):34}{entry['mb']:8.1f}{entry['copy_us']:9.2f}{''.join(cells)} {of_copy} {ahead}")
    return "\n".join(lines)


def plain_case(case):
    """Whether a case of the harness is what is timed here: weight, no offset, one rounding, dense rows, cold."""
    values, width = case["values"], case["values"].get("width")
    strides = [value for name, value in values.items() if name.endswith("_stride")]
    return (
        case.get("residency", "cold") == "cold"
        and values.get("weight", 1) == 1
        and values.get("weight_offset", 0) == 0
        and values.get("round_first", 0) == 0
        and all(stride == width for stride in strides)
    )


def agreement(path, entries, limit):
    """Whether the harness's medians and ours here lie within `limit` of each other, shape by shape."""
    report = json.loads(pathlib.Path(path).read_text())
    mine = {label(entry): entry for entry in entries if "kernels" in entry["times_us"]}
    print(f"\n{'harness beside torch graphs, us':34}{'harness':>10}{'here':>10}{'differ':>9}{'copy':>10}{'here':>10}{'differ':>9}")
    compared, apart = 0, 0
    for case in report["cases"]:
        values = case["values"]
        name = f"{case['operation']} {int(values.get('rows', 0))}x{int(values.get('width', 0))} {case['dtype']}"
        if name not in mine or not plain_case(case):
            print(f"{name:34}  not compared: {'another variant' if name in mine else 'not timed here'} ({case.get('case', '')})")
            continue
        entry = mine[name]
        theirs, here = case["kernel"]["median"], entry["times_us"]["kernels"]
        roof, roof_here = case["copy"]["median"], entry["copy_us"]
        differ = theirs / here - 1
        compared += 1
        apart += abs(differ) > limit
        over = "  OVER" if abs(differ) > limit else ""
        print(f"{name:34}{theirs:10.2f}{here:10.2f}{100 * differ:+8.1f}%{roof:10.2f}{roof_here:10.2f}{100 * (roof / roof_here - 1):+8.1f}%{over}")
    if not compared:
        print("nothing to compare: the harness's report has no row of this run")
    else:
        print(f"{compared - apart} of {compared} within {100 * limit:.0f} %")
    return compared > 0 and apart == 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", help="shared object with rms_norm_launch and add_rms_norm_launch")
    parser.add_argument("--blog", help="shared object with the blog's launchers")
    parser.add_argument(
        "--quack", metavar="DIR", help="QuACK's kernels compiled ahead, as rms_norm_4096.so: instead of the installed package"
    )
    parser.add_argument("--out", help="where the JSON goes; written again after each row")
    parser.add_argument("--rounds", type=int, default=40, help="timed rounds, at least 20 (default 40)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="only rows whose name has TEXT, such as 'add_rms_norm' or 8192x4096; may be repeated")
    parser.add_argument("--without", action="append", default=[], choices=PEERS, help="leave a peer out; may be repeated")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="compiling processes")
    parser.add_argument("--compile-seconds", type=float, default=80.0, help="what is not compiled by then is skipped (default 80)")
    parser.add_argument("--seconds", type=float, default=140.0, help="no torch.compile candidate is begun after this (default 140)")
    parser.add_argument("--against-harness", metavar="BENCH.JSON", help="compare with a report of `kernels bench --json`; 1 is returned over --within")
    parser.add_argument("--within", type=float, default=3.0, help="per cent (default 3)")
    args = parser.parse_args()
    if args.rounds < 20:
        parser.error("--rounds: at least 20")
    args.wanted = [name for name in NAMES if name not in args.without]
    return args


def main():
    args = parse()
    rows = [row for row in all_rows() if not args.only or any(text in f"{row} " for text in args.only)]
    if not rows:
        sys.exit(f"--only leaves no row; there are: {', '.join(map(str, all_rows()))}")
    import torch

    print(f"torch {torch.__version__} [{clock()}]", flush=True)
    torch.set_grad_enabled(False)
    failed = compile_all(rows, [name for name in args.wanted if name != "quack" or not args.quack], args.workers, args.compile_seconds)
    for (name, formulation, row), reason in failed.items():
        print(f"  NOT COMPILED {name} {formulation} for {row}: {reason}")
    if not torch.cuda.is_available():
        sys.exit("no CUDA device")
    configure()
    report = {
        "format": 1,
        "card": torch.cuda.get_device_name(0),
        "driver": driver(),
        "torch": torch.__version__,
        "packages": versions(args),
        # Their outputs come from the graph's pool, and rotate over the same sets.
        "allocates": [name for name in ("torch", "compile", "compile-max", "liger", "quack") if name in args.wanted],
        "rounds": args.rounds,
        "rows": [],
    }
    print(f"{report['card']}, driver {report['driver']}, {report['packages']}", flush=True)
    on, bad = torch.cuda.Stream(), []
    for row in rows:
        began = time.monotonic()
        try:
            report["rows"].append(run_row(args, row, failed, on))
        except Exception as error:  # the other rows still count
            bad.append(f"{row}: {describe(error)}")
            print(f"  FAILED {bad[-1]}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        print(f"{row}: {time.monotonic() - began:.1f} s [{clock()}]", flush=True)
        if args.out:
            pathlib.Path(f"{args.out}.part").write_text(json.dumps(report, indent=1) + "\n")
            os.replace(f"{args.out}.part", args.out)
    counters = torch._dynamo.utils.counters
    print(f"compile caches: {dict(counters['aot_autograd'])}, {({k: v for k, v in counters['inductor'].items() if 'fxgraph' in k})}")
    print("\n" + table(report["rows"]))
    for entry in report["rows"]:
        if args.library and "kernels" in entry["wrong"]:
            bad.append(f"{label(entry)}: ours is wrong")
        elif args.library and "kernels" not in entry["times_us"]:
            bad.append(f"{label(entry)}: ours was not timed")
    for line in bad:
        print(f"FAILED {line}")
    agrees = not args.against_harness or agreement(args.against_harness, report["rows"], args.within / 100)
    print(f"[{clock()}]", flush=True)
    sys.exit(0 if agrees and not bad else 1)


if __name__ == "__main__":
    main()
