"""Budgets on sm_75, sm_80 and sm_90, accesses of 16 bytes, and results on the processor; `hidden` are other widths and strides."""

import math
import random
import struct

import host
import judge

SOURCE = "kernel_src/l2_normalize.cu"


def right(library, rows, width, stride, scale=1.0, eps=1e-6):
    x = [random.gauss(0, scale) for _ in range(rows * stride)]
    x[:width] = [0.0] * width  # a row of zeros
    data = struct.pack(f"<{len(x)}f", *x)
    arguments = [("out", len(data)), ("in", data), ("q", rows), ("q", width), ("q", stride), ("f", eps), ("stream",)]
    out = host.call(library, "l2_normalize_launch", arguments)
    if out is None:
        return False
    found, poison = host.floats(out[0]), struct.unpack("<f", b"\xab" * 4)[0]
    for row in range(rows):
        begin = row * stride
        length = max(math.sqrt(sum(v * v for v in x[begin:begin + width])), eps)
        near = all(abs(a - v / length) <= 2e-6 for a, v in zip(found[begin:begin + width], x[begin:begin + width]))
        if not near or any(v != poison for v in found[begin + width:begin + stride]):
            return False
    return True


with judge.judging("compiles", "check", "visible", "hidden") as verdict, judge.copied([SOURCE]) as project:
    report = judge.builds(verdict, project)
    kernels = [kernel for target in report["targets"] for unit in target["units"] for kernel in unit["kernels"]]
    wide = {target["arch"] for target in report["targets"] for unit in target["units"] for kernel in unit["kernels"]
            if kernel["loads"]["wide"] > 0 and kernel["stores"]["wide"] > 0}
    verdict.set("compiles", kernels and wide == {75, 80, 90}, f"accesses of 16 bytes on {sorted(wide)} only")
    library = host.compile(project / SOURCE, project)
    if library is None:
        raise ValueError("the kernel does not compile for the processor")
    verdict.set("visible", right(library, 3, 64, 64) and right(library, 3, 8192, 8192))
    cases = [(2, 1, 1), (3, 1023, 1024), (3, 1023, 1023), (3, 1000, 1004), (2, 64, 67), (2, 65537, 65537), (1, 70000, 70000)]
    good = all(right(library, *case) for case in cases) and right(library, 3, 64, 64, scale=1e-9)
    verdict.set("hidden", good)
