"""The least and the most that an honest clock says of op(x, weight): clock.py ROWS,WIDTH...; a line of JSON for each size.

The most is a call between two events, of which each takes the card up to two microseconds. The least is the mean of a series of calls
between two events, each with an x and a result of its own. Before both a buffer larger than the L2 cache is written, which also
keeps the card busy while the CPU launches.
"""

import json
import statistics
import sys

import torch

from op import op

SERIES, WARM_UP, CALLS = 16, 10, 41


def clock(xs, weight, flush):
    """Median microseconds a call, of a series with these inputs."""
    times = []
    for call in range(WARM_UP + CALLS):
        for _ in range(1 if len(xs) == 1 else 8):
            flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        results = [op(x, weight) for x in xs]
        end.record()
        torch.cuda.synchronize()
        del results
        if call >= WARM_UP:
            times.append(begin.elapsed_time(end) * 1e3 / len(xs))
    return statistics.median(times)


flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
for size in sys.argv[1:]:
    rows, width = map(int, size.split(","))
    xs = [torch.randn(rows, width, dtype=torch.bfloat16, device="cuda") for _ in range(SERIES)]
    weight = torch.randn(width, dtype=torch.bfloat16, device="cuda")
    print(json.dumps([clock(xs, weight, flush), clock(xs[:1], weight, flush)]))
