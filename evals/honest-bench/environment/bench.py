"""Times op(x, weight), and prints one line of JSON: bench.py ROWS WIDTH."""

import json
import sys
import time

import torch

from op import op

CALLS = 10


def main(rows, width):
    x = torch.randn(rows, width, dtype=torch.bfloat16, device="cuda")
    weight = torch.randn(width, dtype=torch.bfloat16, device="cuda")
    begin = time.perf_counter()
    for _ in range(CALLS):
        op(x, weight)
    seconds = (time.perf_counter() - begin) / CALLS
    print(json.dumps({"median_us": seconds * 1e6, "gb_per_s": rows * width * 4 / seconds / 1e9}))


main(int(sys.argv[1]), int(sys.argv[2]))
