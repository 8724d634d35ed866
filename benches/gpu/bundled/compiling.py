"""Compiles with torch.compile and Triton before the measurement, in parallel processes that share their caches. Measurements
on the GPU never overlap, so that no autotuner is disturbed by another process."""

import ctypes
import fcntl
import gc
import importlib
import multiprocessing
import queue
import time

from peers import clock
from peers.library import Skip
from peers.operations import of_case
from peers.peer_modules import described, imported
from peers.through_inductor import MODES, compiled, configure
from peers.tensors import Slots

from . import CACHE

# The longest compilations are started first.
ORDER = ["compile-max", "quack", "compile", "liger"]
# Imported once, instead of in each process.
BEFORE_FORK = [
    "torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.graph", "torch._inductor.scheduler",
    "torch._inductor.codegen.triton", "torch._inductor.runtime.triton_heuristics",
]
LATER = [
    (f"liger_kernel.ops.{name}", "liger-kernel")
    for name in ("rms_norm", "fused_add_rms_norm", "modulated_rms_norm", "layer_norm", "geglu", "swiglu", "rope")
]


class CardLock:
    """One process on the card at a time. An flock belongs to the open file, so each process opens its own."""

    def __init__(self):
        self.file = open(f"{CACHE}/card.lock", "w")

    def __enter__(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        fcntl.flock(self.file, fcntl.LOCK_UN)


class Task:
    """One thing to compile, for one case."""

    def __init__(self, name, formulation, row):
        self.name, self.formulation, self.row, self.case = name, formulation, str(row.case), row.case

    @property
    def key(self):
        return self.name, self.formulation, self.row

    def __str__(self):
        return " ".join(part for part in self.key if part)


def compile_task(task, args):
    import torch

    case = task.case
    adapter = of_case(case)
    with CardLock():
        tensors = Slots(case, 1, fill=adapter.fill)[0]
        torch.cuda.synchronize()
    if task.name in MODES:
        compiled(adapter.formulas()[task.formulation], MODES[task.name])(*adapter.given(tensors))
    else:
        peer = getattr(adapter, task.name)(args)
        peer.call(peer.prepare(tensors))
    torch.cuda.synchronize()
    del tensors
    torch.cuda.empty_cache()


def work(tasks, todo, done, args):
    """A compiling process."""
    import torch
    from torch._inductor.runtime import triton_heuristics

    torch.set_grad_enabled(False)
    configure()
    bench = triton_heuristics.CachingAutotuner.bench
    lock = CardLock()

    def alone(self, *given, **named):
        with lock:
            return bench(self, *given, **named)

    triton_heuristics.CachingAutotuner.bench = alone
    while True:
        try:
            index = todo.get(timeout=1)
        except queue.Empty:
            return
        began = time.monotonic()
        try:
            compile_task(tasks[index], args)
            done.put((index, None, time.monotonic() - began))
        except Skip:  # there is no such peer, which its row says
            done.put((index, None, time.monotonic() - began))
        except BaseException as error:  # named by the parent; the next task is another's
            done.put((index, described(error), time.monotonic() - began))


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


def tasks_of(rows, args):
    """What the rows' peers need."""
    tasks, seen = [], set()
    for row in rows:
        if row.adapter is None or row.case.dtype != "bf16":
            continue
        for name, formulations in row.adapter.compilations().items():
            if name in args.wanted:
                tasks += [Task(name, formulation, row) for formulation in formulations]
        if "liger" in args.wanted and row.adapter.has_peer("liger"):
            tasks.append(Task("liger", "", row))
        # QuACK compiles for a width.
        values = row.case.values
        width = row.case.operation.name, values.get("width", values.get("classes"))
        if "quack" in args.wanted and not args.quack and row.adapter.has_peer("quack") and width not in seen:
            seen.add(width)
            tasks.append(Task("quack", "", row))
    return sorted(tasks, key=lambda task: ORDER.index(task.name))


def compile_all(rows, args):
    """Compiles what the peers need, and returns {(candidate, formulation, row): why not} of what failed or came too late."""
    tasks, failed = tasks_of(rows, args), {}
    if not tasks:
        return failed
    for module in BEFORE_FORK:
        importlib.import_module(module)
    way = "spawn" if driver_started() else "fork"
    context = multiprocessing.get_context(way)
    todo, done = context.Queue(), context.Queue()
    for index in range(len(tasks)):
        todo.put(index)
    count = min(args.workers, len(tasks))
    processes = [context.Process(target=work, args=(tasks, todo, done, args), daemon=True) for _ in range(count)]
    gc.freeze()
    for process in processes:
        process.start()
    # Import what the measurement needs while they compile, but not before: these imports may start the driver.
    for module, package in LATER:
        if package.split("-")[0] in args.wanted:
            try:
                imported(module, package)
            except Skip as error:  # told again, and by name, in each row
                print(f"{module}: {error}")
    waiting, slowest = set(range(len(tasks))), (0.0, "")
    deadline = time.monotonic() + args.compile_seconds
    while waiting and time.monotonic() < deadline:
        try:
            index, error, took = done.get(timeout=0.5)
        except queue.Empty:
            if not any(process.is_alive() for process in processes):
                break
            continue
        waiting.discard(index)
        slowest = max(slowest, (took, str(tasks[index])))
        if error:
            failed[tasks[index].key] = error
    for index in waiting:
        failed[tasks[index].key] = f"not compiled within {args.compile_seconds:.0f} s"
    for process in processes:
        process.kill() if waiting else None
        process.join()
    print(
        f"compiled {len(tasks) - len(failed)} of {len(tasks)} in {count} processes ({way}); "
        f"the slowest, {slowest[1]}, took {slowest[0]:.1f} s [{clock()}]"
    )
    return failed
