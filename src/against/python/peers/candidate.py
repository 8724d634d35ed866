"""One candidate of a row: its graph, whether it is right, its times.

Times come from torch's events around torch's replay of the graphs, or, with the Python module of `kernels`, from the clock of
the harness, which replays the same graphs itself between copies of its own.
"""

import math
import random
import statistics

# Relative error in the 2-norm. One rounding to bf16 is about 1.7e-3, two 2.4e-3.
TOLERANCE = {"bf16": 4e-3, "f16": 6e-4, "f32": 4e-6}
# After this many rounds, a variant that is slower than another of the same name is no longer replayed.
TRIED = 8


class Candidate:
    """`call(i)` launches on set i on the current stream and returns its outputs. If it works in place, `restore(i)` restores
    the inputs of set i. If it computes another function, `other` describes it, and `holds(i, outputs)` checks the outputs."""

    def __init__(self, name, call, label=None, restore=None, other=None, holds=None, rounds=1.0):
        self.name, self.call, self.label, self.restore = name, call, label or name, restore
        self.other, self.holds, self.rounds = other, holds, rounds
        self.graph = self.held = self.fault = None
        self.samples, self.late, self.every, self.out = [], [], 1, False
        # Set by the harness's clock, instead of samples.
        self.spread = None

    @property
    def median(self):
        return self.spread["median"] if self.spread else statistics.median(self.samples)

    def as_spread(self):
        """Microseconds per launch, in the harness's format."""
        if self.spread:
            return self.spread
        return {
            "median": self.median,
            "p10": self.percentile(0.1),
            "p90": self.percentile(0.9),
            "min": min(self.samples),
            "samples": len(self.samples),
        }

    def percentile(self, p):
        ordered = sorted(self.samples)
        at = p * (len(ordered) - 1)
        low = math.floor(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

    def capture(self, sets, cycles, on, keep=False):
        """Captures `cycles` passes over the sets. What a call allocates is kept until the set's next pass, so that its outputs
        rotate as preallocated ones do and cannot stay in the L2. `keep` keeps the graph itself, for the harness to replay."""
        import torch

        with torch.cuda.stream(on):
            for i in range(min(3, sets)):
                self.call(i)
            on.synchronize()
            graph, held = torch.cuda.CUDAGraph(keep_graph=True) if keep else torch.cuda.CUDAGraph(), [None] * sets
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for _ in range(cycles):
                    for i in range(sets):
                        held[i] = None
                        held[i] = self.call(i)
            except BaseException:
                try:
                    graph.capture_end()
                except RuntimeError:
                    pass  # the first error is the one to report
                raise
            graph.capture_end()
        self.graph, self.held = graph, held

    def check(self, chosen, wanted, dtype, on):
        """What is wrong with the outputs of the chosen sets, or None. `wanted(i)` returns the right ones."""
        import torch

        if self.restore:
            with torch.cuda.stream(on):
                for i in chosen:
                    self.restore(i)
                    self.held[i] = self.call(i)
        else:
            for i in chosen:
                for output in self.held[i]:
                    output.fill_(math.nan if output.is_floating_point() else 0)
            self.graph.replay()
        torch.cuda.synchronize()
        faults = (self.fault_of(i, self.held[i], wanted, dtype) for i in chosen)
        return next((fault for fault in faults if fault), None)

    def fault_of(self, i, outputs, wanted, dtype):
        """What is wrong with the outputs of set i, or None."""
        if self.holds:
            return self.holds(i, outputs)
        allowed = TOLERANCE[dtype] * self.rounds
        for at, (got, want) in enumerate(zip(outputs, wanted(i), strict=True)):
            error = relative_error(got, want)
            if not error <= allowed:
                return f"relative error {error:.2e} in output {at}, allowed {allowed:.1e}"
        return None


def relative_error(got, want):
    """The relative error in the 2-norm; NaN if an element was not written."""
    if got.numel() != want.numel():
        raise ValueError(f"an output of {list(got.shape)} where {list(want.shape)} is right")
    off = (got.reshape(want.shape).double() - want).norm()
    return (off / want.norm().clamp_min(1e-300)).item()


def measure(candidates, launches, rounds):
    """Replays all graphs in turn, in a new order each round, and returns how many samples were dropped because the host was
    late. A pause on the card before each replay lets the host get ahead, so that the time to launch is not measured. Slow
    candidates take part in fewer rounds, and a variant that is slower than another of its name soon in none."""
    import torch

    drop, late = 2, 0
    shuffle = random.Random(1)
    events = {}
    for number in range(rounds + drop):
        order = [candidate for candidate in candidates if not candidate.out and number % candidate.every == 0]
        shuffle.shuffle(order)
        torch.cuda._sleep(2_000_000)
        before, behind = None, set()
        for candidate in order:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            events[id(candidate)] = begin, end
            torch.cuda._sleep(400_000)
            begin.record()
            if before is not None and before.query():
                behind.add(id(candidate))
            candidate.graph.replay()
            end.record()
            before = end
        torch.cuda.synchronize()
        for candidate in order:
            begin, end = events[id(candidate)]
            whole = begin.elapsed_time(end) * 1e3
            if number < drop:
                # At most 6 ms per graph and round on average, and at least eight samples.
                candidate.every = max(1, min(math.ceil(whole / 6000), rounds // TRIED))
                continue
            (candidate.late if id(candidate) in behind else candidate.samples).append(whole / launches)
            late += id(candidate) in behind
        if number == drop + TRIED:
            leave_out(candidates)
    return late


def leave_out(candidates):
    """Variants that are clearly not the best of their name, or wrong where another is right."""
    for name in {candidate.name for candidate in candidates}:
        timed = [candidate for candidate in candidates if candidate.name == name and candidate.samples]
        right = [candidate.median for candidate in timed if not candidate.fault]
        for candidate in timed:
            if right and (candidate.fault or candidate.median > 1.04 * min(right)):
                candidate.out = True


def measure_by(ruler, candidates, size_in_bytes, sets, launches, rounds):
    """Times the candidates with the harness's clock. Returns the spread of its copy, how that was made, and remarks."""
    graphs = {str(number): candidate.graph.raw_cuda_graph() for number, candidate in enumerate(candidates)}
    replayed = ruler.replay(graphs, bytes=size_in_bytes, sets=sets, launches=launches, rounds=rounds)
    remarks = []
    for number, candidate in enumerate(candidates):
        timing = replayed[str(number)]
        candidate.spread = timing.spread()
        candidate.fault = candidate.fault or timing.impossible
        remarks += [remark for remark in timing.remarks if remark not in remarks]
    # The same copy was timed after each candidate.
    copies = sorted((timing.copy for timing in replayed.values()), key=lambda copy: copy.median)
    return copies[len(copies) // 2].spread(), copies[0].by, remarks
