"""On the processor: tensors end where memory ends, what lies between rows is NaN and stays, accesses are aligned. `hidden` are other
widths, strides and alignments. That there are accesses of 16 bytes is read off the machine code."""

import random
import struct

import host
import judge

SOURCE = "kernel_src/row_mean.cu"
NAN, POISON = b"\xff\xff", b"\xab\xab"


def right(library, rows, width, stride, skipped=0):
    """Rows that begin `skipped` elements behind 16 bytes; the last row ends with its last element."""
    x = [host.floats(struct.pack(f"<{width}e", *(random.gauss(1, 2) for _ in range(width))), "e") for _ in range(rows)]
    between = NAN * (stride - width)
    data = NAN * skipped + between.join(struct.pack(f"<{width}e", *row) for row in x)
    arguments = [("out", len(data), 2 * skipped), ("in", data, 2 * skipped), ("q", rows), ("q", width), ("q", stride), ("stream",)]
    out = host.call(library, "row_mean_launch", arguments)
    if out is None or out[0][:2 * skipped] != POISON * skipped:
        return False
    for number, row in enumerate(x):
        begin = 2 * (skipped + number * stride)
        found, mean = host.floats(out[0][begin:begin + 2 * width], "e"), sum(row) / width
        behind = out[0][begin + 2 * width:begin + 2 * stride]
        if behind != POISON * (len(behind) // 2) or not all(abs(a - (b - mean)) <= 4e-3 * (1 + abs(b)) for a, b in zip(found, row)):
            return False
    return True


with judge.judging("compiles", "check", "visible", "hidden") as verdict, judge.copied([SOURCE]) as project:
    report = judge.builds(verdict, project)
    wide = {target["arch"] for target in report["targets"] for unit in target["units"] for kernel in unit["kernels"]
            if kernel["loads"]["wide"] > 0 and kernel["stores"]["wide"] > 0}
    verdict.set("compiles", wide == {75, 80, 90}, f"accesses of 16 bytes on {sorted(wide)} only")
    library = host.compile(project / SOURCE, project)
    if library is None:
        raise ValueError("the kernel does not compile for the processor")
    verdict.set("visible", right(library, 5, 64, 64) and right(library, 9, 1004, 1008) and right(library, 3, 1004, 1004))
    cases = [(1, 1, 1), (1, 7, 7), (1, 9, 9), (3, 1, 3), (17, 1023, 1024), (9, 257, 257), (4, 8, 8), (2, 4099, 4104), (3, 64, 67)]
    skipped = [(5, 64, 64, 1), (3, 1004, 1008, 4), (1, 1001, 1001, 3)]
    verdict.set("hidden", all(right(library, *case) for case in cases + skipped))
