"""Step times: contenders in turns, their order drawn anew each round."""

import random
import time
from typing import Callable, Dict, List

# A sample is the mean of enough consecutive steps to last this long, because a real loop does not wait between steps.
LEAST_SAMPLE_MS = 200.0
MOST_STEPS = 20
# The minimum number of rounds for a meaningful spread.
LEAST_ROUNDS = 3


def once(step: Callable[[], object], repeat: int, device: str) -> float:
    """Milliseconds a step."""
    import torch

    if device != "cuda":
        start = time.perf_counter()
        for _ in range(repeat):
            step()
        return (time.perf_counter() - start) * 1000.0 / repeat
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeat):
        step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / repeat


def quantile(values: List[float], share: float) -> float:
    """Linear between the two nearest."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary(samples: List[float]) -> Dict[str, float]:
    return {
        "median": quantile(samples, 0.5),
        "p10": quantile(samples, 0.1),
        "p90": quantile(samples, 0.9),
        "min": min(samples),
        "samples": len(samples),
    }


def rounds(steps: Dict[str, Callable[[], object]], count: int, device: str, seed: int, over: Callable[[], bool]):
    """Samples by contender. `over` ends it early, after LEAST_ROUNDS."""
    draw = random.Random(seed)
    repeat = {}
    for name, step in steps.items():
        once(step, 1, device)
        taken = max(once(step, 1, device), 1e-3)
        repeat[name] = max(1, min(MOST_STEPS, round(LEAST_SAMPLE_MS / taken)))
    samples: Dict[str, List[float]] = {name: [] for name in steps}
    for done in range(count):
        if done >= LEAST_ROUNDS and over():
            break
        order = list(steps)
        draw.shuffle(order)
        for name in order:
            samples[name].append(once(steps[name], repeat[name], device))
    return samples
