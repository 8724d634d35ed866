"""Compiles for sm_75 without bf16 and cp.async; on the processor, within a T4's shared memory. `hidden` are other shapes."""

import random
import re
import struct
from pathlib import Path

import host
import judge

SOURCE = "kernel_src/short_conv.cu"
MOST_SHARED = 64 << 10


def right(library, time, channels):
    x = host.floats(struct.pack(f"<{time * channels}e", *(random.gauss(0, 1) for _ in range(time * channels))), "e")
    weight = host.floats(struct.pack(f"<{4 * channels}e", *(random.gauss(0, 1) for _ in range(4 * channels))), "e")
    given = [("in", struct.pack(f"<{len(numbers)}e", *numbers)) for numbers in (x, weight)]
    out = host.call(library, "short_conv_launch", [("out", 2 * len(x)), *given, ("q", time), ("q", channels), ("stream",)])
    if out is None:
        return False
    for i, found in enumerate(host.floats(out[0], "e")):
        t, c = divmod(i, channels)
        expected = sum(weight[4 * c + k] * x[(t - 3 + k) * channels + c] for k in range(4) if t - 3 + k >= 0)
        if not abs(found - expected) <= 1e-3 * abs(expected) + 1e-4:
            return False
    return True


with judge.judging("compiles", "check", "visible", "hidden") as verdict, judge.copied([SOURCE]) as project:
    report = judge.builds(verdict, project, "75")
    units = [unit for target in report["targets"] for unit in target["units"]]
    static = max(kernel["shared"] for unit in units for kernel in unit["kernels"])
    newer = [word for unit in units for word in re.findall(r"\bcp\.async|\bbf16", Path(unit["ptx"]).read_text())]
    verdict.set("compiles", units and not newer, f"the PTX has {sorted(set(newer))}")
    library = host.compile(project / SOURCE, project, MOST_SHARED - static)
    if library is None:
        raise ValueError("the kernel does not compile for the processor")
    verdict.set("visible", right(library, 500, 64))
    cases = [(1, 1), (2, 2), (3, 64), (129, 66), (400, 7), (1027, 130)]
    verdict.set("hidden", all(right(library, *case) for case in cases))
