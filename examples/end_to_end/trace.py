"""What ran on the card in a step: the profiler's trace, read as a file, which is the same from version to version."""

import dataclasses
import json
import os
import tempfile
from typing import Dict, List, Tuple

from .categories import by_category

# The trace's categories of GPU work.
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
# The number of kernels listed by name.
MOST_NAMED = 12


@dataclasses.dataclass(frozen=True)
class Profile:
    """Of one step, times in milliseconds.

    launches: kernels, copies and fills; those of a replayed CUDA graph count as well
    busy_ms: in which at least one of them ran
    categories: without idle, which the step's unprofiled time tells
    largest: (name, category's time, launches), the longest first
    """

    launches: float
    busy_ms: float
    categories: Dict[str, float]
    largest: List[Tuple[str, float, float]]


def union(spans: List[Tuple[float, float]]) -> float:
    """The length of what the spans cover together."""
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def read(trace: Dict[str, object], steps: int) -> Profile:
    """A profile of a Chrome trace that `steps` steps are in. Its times are microseconds."""
    work = [event for event in trace["traceEvents"] if event.get("cat") in WORK and "dur" in event]
    if not work:
        raise RuntimeError("the profiler saw no kernel: CUPTI is not to be had here, or somebody else holds it")
    spans = [(float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in work]
    busy = union(spans)
    scale = 1.0 / (1000.0 * steps)
    times = [(str(event["name"]), float(event["dur"]) * scale) for event in work]
    sums: Dict[str, List[float]] = {}
    for name, time in times:
        of_name = sums.setdefault(name, [0.0, 0.0])
        of_name[0] += time
        of_name[1] += 1.0 / steps
    largest = sorted(((name, time, count) for name, (time, count) in sums.items()), key=lambda row: -row[1])
    categories = by_category(times)
    # Overlapping kernels count once in busy_ms; the proportions of the categories are kept.
    total = sum(categories.values())
    if total > 0:
        categories = {name: time * (busy * scale) / total for name, time in categories.items()}
    return Profile(len(work) / steps, busy * scale, categories, largest[:MOST_NAMED])


def profile(step, steps: int) -> Profile:
    """Runs `step` under the profiler. The host is slower then, which is why nothing is timed here but kernels."""
    import torch

    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            return read(json.load(file), steps)
    finally:
        os.unlink(path)
