"""One row: a bench case of a project, run by all candidates."""

import ctypes
import math

from . import elapsed
from .candidate import Candidate, measure, measure_by
from .copies import copies
from .hub import hub_peer
from .library import Skip
from .peer_modules import described, stream
from .tensors import Slots, allocate
from .through_inductor import MODES, compiled

PEERS = ["torch", "compile", "compile-max", "liger", "quack", "blog"]
NAMES = ["kernels", *PEERS]
MIN_BYTES = 200e6
# A case so small that this many sets do not fill the L2 is timed hot.
MOST_SETS = 4096
GRAPH_US = 1200.0
told = set()


class Run:
    """What the candidates of a row share."""

    def __init__(self, args, row, failed, libraries):
        import torch

        self.args, self.row, self.failed, self.libraries = args, row, failed, libraries
        self.case, self.adapter = row.case, row.adapter
        self.sets = 1
        if args.device == "cuda":
            l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
            self.sets = min(MOST_SETS, max(4, math.ceil(max(4.2 * l2, MIN_BYTES) / self.case.bytes)))
        # Estimated from the bytes at 3 TB/s, and at least 2 us per launch.
        guess = max(2.0, self.case.bytes / 3e6)
        self.cycles = max(1, math.ceil(GRAPH_US / (guess * self.sets)))
        self.slots = Slots(self.case, self.sets, args.device, fill=self.adapter.fill if self.adapter else None)
        self.references, self.given = {}, None
        self.own_rounds = self.adapter.own_rounds if self.adapter else 1.0

    @property
    def launches(self):
        return self.sets * self.cycles

    def wanted(self, i):
        """The right results for set i in the adapter's order, computed once."""
        if i not in self.references:
            found = self.adapter.reference(self.slots.inputs(i))
            self.references[i] = tuple(found[name] for name in self.adapter.outputs)
        return self.references[i]

    def models(self):
        """The formulas' tensors, made once."""
        if self.given is None:
            self.given = [self.adapter.given(self.slots[i]) for i in range(self.sets)]
        return self.given

    def kernels(self):
        """This repository's own."""
        launch = self.libraries.launcher(self.case.operation)
        written = [name for name, spec in self.case.tensors.items() if spec.role == "inout"]
        # It has its own tensors to overwrite, with the case's strides, so that no other candidate reads them.
        own = {name: allocate(self.case.tensors[name], self.sets, "cuda")[0] for name in written}
        tensors = [{**shared, **{name: own[name][i] for name in written}} for i, shared in enumerate(self.slots.sets)]
        given = [self.case.arguments(lambda name, i=i: tensors[i][name].data_ptr()) for i in range(self.sets)]
        at = next(index for index, (kind, _) in enumerate(self.case.plan) if kind == "stream")
        names = self.adapter.outputs if self.adapter else [n for n, spec in self.case.tensors.items() if spec.role in ("output", "inout")]
        outputs = [tuple(tensors[i][name] for name in names) for i in range(self.sets)]

        def call(i):
            arguments = given[i]
            arguments[at] = ctypes.c_void_p(stream())
            code = launch(*arguments)
            if code:
                raise RuntimeError(f"{self.case.operation.launcher} returned {code}")
            return outputs[i]

        def restore(i):
            for name in written:
                own[name][i].copy_(self.slots[i][name])

        for i in range(self.sets):
            restore(i)
        unchecked = None if self.adapter else lambda i, outputs: None
        return [Candidate("kernels", call, restore=restore if written else None, holds=unchecked, rounds=self.own_rounds)]

    def eager(self):
        formulas = self.adapter.formulas()
        if not formulas:
            raise Skip("no model has this operation alone")
        given, rounds = self.models(), self.adapter.rounds
        if isinstance(self.adapter.eager, tuple):
            candidates = {name: (lambda i, name=name: formulas[name](*given[i])) for name in self.adapter.eager}
            return [Candidate("torch", call, f"torch ({name})", rounds=rounds) for name, call in candidates.items()]
        name = self.adapter.eager if self.adapter.eager in formulas else next(iter(formulas))
        return [Candidate("torch", lambda i: formulas[name](*given[i]), rounds=rounds)]

    def inductor(self, name):
        made, reasons, given = [], [], self.models()
        formulas = self.adapter.compilations().get(name, [])
        if self.args.everything:
            formulas = self.adapter.compiled().get(name) or list(self.adapter.formulas())
        for formulation in formulas:
            reason = self.failed.get((name, formulation, str(self.case)))
            if not reason and elapsed() > self.args.seconds:
                reason = f"the run's {self.args.seconds:.0f} s are over"
            if reason:
                reasons.append(f"{formulation}: {reason}")
                continue
            made.append(Candidate(name, self.late(name, formulation, given), f"{name} ({formulation})", rounds=self.adapter.rounds))
        if not made:
            raise Skip("; ".join(reasons) or "not compiled: too little to gain here, or the same formula as another operation's")
        return made

    def late(self, name, formulation, given):
        """Compiled at the first call, and captured before the next candidate's compilation discards it."""
        state = []

        def call(i):
            if not state:
                state.append(compiled(self.adapter.formulas()[formulation], MODES[name]))
            return state[0](*given[i])

        return call

    def other(self, name):
        reason = self.failed.get((name, "", str(self.case)))
        if reason:
            raise Skip(reason)
        peer = hub_peer(name, self.case) if name.startswith("hub:") else getattr(self.adapter, name)(self.args)
        given = [peer.prepare(self.slots[i]) for i in range(self.sets)]
        pristine, restore = {}, None
        if peer.inplace:
            # It has its own tensors, so that no other candidate reads what it overwrote.
            given = [tuple(_own(tensor) for tensor in one) for one in given]
            pristine = {i: peer.prepare(self.slots[i]) for i in self.chosen}

            def restore(i):
                for mine, first in zip(given[i], pristine[i], strict=True):
                    if mine is not None:
                        mine.copy_(first)

        holds = (lambda i, outputs: peer.holds(self.slots[i], outputs)) if peer.holds else None
        candidate = Candidate(name, lambda i: peer.call(given[i]), restore=restore, other=peer.other, holds=holds)
        candidate.rounds = self.adapter.rounds
        return [candidate]

    @property
    def chosen(self):
        return sorted({0, self.sets - 1})

    def make(self, name):
        if name == "kernels":
            return self.kernels()
        if self.adapter is None:
            raise Skip(self.row.unknown)
        if name == "torch":
            return self.eager()
        return self.inductor(name) if name in MODES else self.other(name)


def _own(tensor):
    return None if tensor is None else tensor.clone()


class Timed:
    """The result of a row: the `chosen` best variants by name, the `skipped` with their reasons, `copy` as a candidate or as
    the harness's spread, and `remarks`."""

    def __init__(self, run):
        self.run, self.chosen, self.skipped, self.copy, self.remarks = run, {}, {}, None, []


def time_row(args, row, failed, libraries, on):
    """Makes, checks and times a row's candidates: those of `args.names` that `args.wanted` has."""
    import torch

    run = Run(args, row, failed, libraries)
    timed = Timed(run)
    skipped, candidates = timed.skipped, []

    def admit(made):
        """Captures and checks them; those that fail are named."""
        for candidate in made:
            try:
                candidate.capture(run.sets, run.cycles, on, keep=args.ruler is not None)
                candidate.fault = candidate.check(run.chosen, run.wanted, row.case.dtype, on)
            except Exception as error:
                skipped[candidate.label] = described(error)
                continue
            if candidate.fault:
                print(f"  WRONG {row}: {candidate.label}: {candidate.fault}")
            candidates.append(candidate)

    if args.ruler is None:
        roof, source = copies(row.case.bytes, run.sets)
        for candidate in roof:
            candidate.holds = lambda i, outputs: None if torch.equal(outputs[0], source[i, : outputs[0].numel()]) else "is no copy"
        admit(roof)
    for name in args.names:
        if name != "kernels" and row.case.dtype != "bf16" and not args.everything:
            continue
        if name not in args.wanted:
            skipped[name] = "left out by --without"
            continue
        try:
            made = run.make(name)
        except Skip as error:
            skipped[name] = str(error)
            continue
        except Exception as error:
            skipped[name] = described(error)
            continue
        admit(made)

    if args.ruler is None:
        for candidate in candidates:
            candidate.graph.replay()
        torch.cuda.synchronize()
        late = measure(candidates, run.launches, args.rounds)
        for candidate in candidates:
            taken = len(candidate.samples) + len(candidate.late)
            if len(candidate.samples) < taken // 2 or not candidate.samples:
                timed.remarks.append(f"{candidate.label}: the host was late in {len(candidate.late)} of {taken} rounds, all taken")
                print(f"  UNSTEADY {row}: {timed.remarks[-1]}")
                candidate.samples += candidate.late
        if late:
            print(f"  {row}: {late} samples dropped: the host was late")
    elif candidates:
        torch.cuda.synchronize()
        timed.copy, _, remarks = measure_by(args.ruler, candidates, row.case.bytes, run.sets, run.launches, args.rounds)
        timed.remarks += remarks
    best = {}
    for candidate in candidates:
        key = (candidate.fault is not None, candidate.median)
        if candidate.name not in best or key < best[candidate.name][0]:
            best[candidate.name] = (key, candidate)
    timed.chosen = {name: candidate for name, (_, candidate) in best.items()}
    if args.ruler is None:
        roof = timed.chosen.get("copy")
        if roof is None or roof.fault:
            raise RuntimeError(f"no copy could be timed: {skipped}")
        timed.copy = roof.as_spread()
    if row.unknown:
        skipped["check"] = row.unknown
    for name, reason in skipped.items():
        # Printed once per operation; the JSON has all.
        if (row.case.operation.name, name, reason) not in told:
            told.add((row.case.operation.name, name, reason))
            print(f"  SKIPPED {row}: {name}: {reason}")
    return timed


def run_row(args, row, failed, libraries, on):
    """One row of the report."""
    timed = time_row(args, row, failed, libraries, on)
    run, chosen = timed.run, timed.chosen
    ours = [name for name in NAMES if name in chosen]
    return {
        "operation": row.case.operation.name,
        "case": row.case.label,
        "shape": row.shape,
        "dtype": row.case.dtype,
        "mb": round(row.case.bytes / 1e6, 1),
        "copy_us": round(chosen["copy"].median, 3),
        "times_us": {name: round(chosen[name].median, 3) for name in ours},
        "spread": {name: [round(chosen[name].percentile(p), 3) for p in (0.1, 0.9)] for name in ["copy", *ours]},
        "wrong": [name for name in ours if chosen[name].fault],
        "other": {name: chosen[name].other for name in ours if chosen[name].other},
        "chosen": {name: chosen[name].label for name in ["copy", *ours] if chosen[name].label != name},
        "sets": run.sets,
        "launches": run.launches,
        "skipped": timed.skipped,
    }
