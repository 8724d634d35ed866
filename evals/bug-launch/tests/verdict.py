"""`kernels check` finds nothing, without an exception that allows it, in few lines; the kernel runs on the processor.

There, a launch on another stream than the caller's fails, and `hidden` are more than 2^31 elements, of which some blocks run.
"""

import random
import re
import struct

import host
import judge

SOURCE = "kernel_src/hardswish.cu"
FAR = (1 << 31) + (1 << 25) + 12288


def near(found, x):
    return all(abs(a - v * min(max(v + 3, 0), 6) / 6) <= 1e-5 * (1 + abs(v)) for a, v in zip(found, x))


def far(library):
    """Whether elements above 2^31 are reached, and all that is written is right."""
    x = [random.uniform(0.5, 4) for _ in range(1 << 20)]
    data = struct.pack(f"<{len(x)}f", *x)
    arguments = [("far", 4 * FAR), ("tiled", data, 4 * FAR), ("q", FAR), ("stream",)]
    pages = host.call(library, "hardswish_launch", arguments, few=True)
    if not pages:
        return False
    above = 0
    for offset, page in pages[0].items():
        for number, value in enumerate(host.floats(page), offset // 4):
            if value != 0:  # else it belongs to a block that did not run: no result is 0
                above += number >= 1 << 31
                if number >= FAR or not near([value], [x[number % len(x)]]):
                    return False
    return above > 0


with judge.judging("compiles", "check", "visible", "hidden") as verdict, judge.copied([SOURCE]) as project:
    judge.builds(verdict, project, "90")
    code, _ = judge.kernels("check", project, "--strict")
    written = (project / SOURCE).read_text()
    lines = judge.changed_lines((judge.TESTS / "original" / SOURCE).read_text(), written)
    allowed = re.search(r"kernels:\s*allow", written)
    verdict.set("check", code == 0 and not allowed and lines <= 10, f"findings, an exception, or {lines} lines changed")
    library = host.compile(project / SOURCE, project)
    if library is None:
        raise ValueError("the kernel does not compile for the processor")
    count = random.randrange(70000, 90000)
    x = [random.gauss(0, 4) for _ in range(count)]
    data = struct.pack(f"<{count}f", *x)
    out = host.call(library, "hardswish_launch", [("out", 4 * count), ("in", data), ("q", count), ("stream",)])
    verdict.set("visible", bool(out) and near(host.floats(out[0]), x), "another stream, or wrong results")
    verdict.set("hidden", verdict.axes["visible"] and far(library), "more than 2^31 elements")
