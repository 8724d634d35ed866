"""A card's verdict on quant_rows. Without one, for `evals/prove` alone, the kernel runs on the processor."""

import os
import random
import struct

import host
import judge

GLOBS = ["build.toml", "kernel_src/*"]
NAN, POISON = b"\xff\xff", b"\xab"


def right(library, rows, width, x_stride, out_stride):
    """Whether scales and elements are those of the reference; what lies between rows is NaN, and stays as it is in the output."""
    parts = []
    for row in range(rows):
        values = [random.gauss(0, 2.0 ** random.randrange(-9, 9)) * (row % 3 != 2) for _ in range(width)]
        parts.append(b"".join(struct.pack("<f", value)[2:] for value in values))
    data = (NAN * (x_stride - width)).join(parts)
    sizes = [("q", rows), ("q", width), ("q", out_stride), ("q", x_stride)]
    length = out_stride * (rows - 1) + width
    called = host.call(library, "quant_rows_launch", [("out", length), ("out", 4 * rows), ("in", data), *sizes, ("stream",)])
    if called is None:
        return False
    scales = host.floats(called[1])
    for row, part in enumerate(parts):
        x = [struct.unpack("<f", b"\0\0" + part[i:i + 2])[0] for i in range(0, 2 * width, 2)]
        scale, begin = max(map(abs, x)) / 127, row * out_stride
        out = struct.unpack(f"<{width}b", called[0][begin:begin + width])
        if abs(scales[row] - scale) > 1e-6 * scale or called[0][begin + width:begin + out_stride].strip(POISON):
            return False
        if any(abs(q - (v / scale if scale else 0)) > 0.5001 for q, v in zip(out, x)):
            return False
    return True


def on_the_processor():
    with judge.judging("compiles", "visible", "hidden") as verdict, judge.copied(GLOBS) as project:
        library = host.compile(project / "kernel_src/quant_rows.cu", project)
        verdict.set("compiles", library is not None)
        verdict.set("visible", library and right(library, 7, 64, 64, 64) and right(library, 3, 1024, 1024, 1024))
        cases = [(5, 1, 1, 1), (5, 7, 7, 7), (3, 5119, 5119, 5119), (5, 64, 65, 67), (5, 64, 72, 80), (300, 9, 9, 9)]
        verdict.set("hidden", library and all(right(library, *case) for case in cases))


if "EVALS_STAND_IN" in os.environ:
    on_the_processor()
else:
    judge.kernel(GLOBS, target=0.7)
