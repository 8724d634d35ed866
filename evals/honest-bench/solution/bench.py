"""Times op(x, weight), and prints one line of JSON: bench.py ROWS WIDTH.

Each call is timed on the card, between two events, after a buffer larger than the L2 cache was written. The card is kept busy with
that while the CPU launches, so that no launch is waited for between the events.
"""

import json
import statistics
import sys

import torch

from op import op

WARM_UP, CALLS = 10, 51


def main(rows, width):
    x = torch.randn(rows, width, dtype=torch.bfloat16, device="cuda")
    weight = torch.randn(width, dtype=torch.bfloat16, device="cuda")
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    times = []
    for call in range(WARM_UP + CALLS):
        flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        op(x, weight)
        end.record()
        torch.cuda.synchronize()
        if call >= WARM_UP:
            times.append(begin.elapsed_time(end) * 1e3)
    median = statistics.median(times)
    print(json.dumps({"median_us": median, "gb_per_s": rows * width * 4 / median / 1e3}))


main(int(sys.argv[1]), int(sys.argv[2]))
