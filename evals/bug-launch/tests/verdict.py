"""`kernels check` finds nothing, without an exception that allows it, in few lines; the kernel runs on the processor."""

import random
import re
import struct

import host
import judge

SOURCE = "kernel_src/hardswish.cu"

with judge.judging("compiles", "check", "visible", "hidden") as verdict, judge.copied([SOURCE]) as project:
    judge.builds(verdict, project, "90")
    code, _ = judge.kernels("check", project, "--strict")
    written = (project / SOURCE).read_text()
    lines = judge.changed_lines((judge.TESTS / "original" / SOURCE).read_text(), written)
    allowed = re.search(r"kernels:\s*allow", written)
    verdict.set("check", code == 0 and not allowed and lines <= 10, f"findings, an exception, or {lines} lines changed")
    # The stream is the launch's fourth parameter, as it was given.
    launched = re.findall(r"<<<(.*?)>>>", written, re.S)
    given = launched and all(re.search(r",\s*0\s*,\s*stream\s*$", one) for one in launched)
    wide = not re.search(r"\b(int|unsigned|int32_t|uint32_t)\s+(i|first|index|stride|step)\b", written)
    verdict.set("hidden", bool(given) and wide and verdict.axes["check"], "the stream, or an index of 32 bits")
    library = host.compile(project / SOURCE, project)
    count = random.randrange(70000, 90000)
    x = [random.gauss(0, 4) for _ in range(count)]
    data = struct.pack(f"<{count}f", *x)
    out = library and host.call(library, "hardswish_launch", [("out", 4 * count), ("in", data), ("q", count), ("stream",)])
    right = (v * min(max(v + 3, 0), 6) / 6 for v in x)
    verdict.set("visible", bool(out) and verdict.axes["hidden"] and
                all(abs(a - b) <= 1e-5 * (1 + abs(b)) for a, b in zip(host.floats(out[0]), right)))
