"""Compiles a .cu file for the processor, with the headers of stubs/, and calls its launcher in a process of its own."""

import json
import re
import struct
import tempfile
from pathlib import Path

import judge

STUBS = Path(__file__).resolve().parent / "stubs"
CALL = """
import ctypes, json, mmap, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 26, 1 << 26))
library, name, plan = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
kinds = {"i": ctypes.c_int32, "q": ctypes.c_int64, "f": ctypes.c_float}
values, kept = [], []
for kind, value in plan:
    if kind == "file":
        with open(value[0], "r+b") as file:
            kept.append(ctypes.c_char.from_buffer(mmap.mmap(file.fileno(), 0)))
        values.append(ctypes.c_void_p(ctypes.addressof(kept[-1]) + value[1]))
    elif kind == "stream":
        values.append(ctypes.c_void_p(None))
    else:
        values.append(kinds[kind](value))
code = getattr(ctypes.CDLL(library), name)(*values)
sys.exit(0 if code == 0 else 3)
"""
GUARD = 4096


def launches_as_calls(text):
    """`kernel<<<…>>>(…)` as a call of `stand_in::launch`, and shared memory as variables of a thread."""
    dynamic = r"extern\s+STAND_IN_SHARED\s+(?:alignas\(\d+\)\s*)?([\w:\s]+?)\s*(?:alignas\(\d+\)\s*)?(\w+)\s*\[\s*\]"
    text = re.sub(dynamic, r"\1* const \2 = reinterpret_cast<\1*>(stand_in::dynamic)", text)
    text = text.replace("STAND_IN_SHARED", "static thread_local")
    while (at := text.find("<<<")) >= 0:
        begin, depth = at, 0
        while begin > 0:
            c = text[begin - 1]
            depth += (c == ">") - (c == "<")
            if depth == 0 and c != "<" and not (c.isalnum() or c in "_:"):
                break
            begin -= 1
        close = text.index(">>>", at)
        text = f"{text[:begin]}stand_in::launch({text[begin:at]}, {text[at + 3:close]}){text[close + 3:]}"
    return text


def compile(source, folder):
    """The library, or None where the source is no plain CUDA C++."""
    whole, library = folder / "unit.ii", folder / "unit.so"
    flags = ["-std=c++17", "-O1", "-fPIC", "-fno-gnu-unique", "-w", "-D__shared__=STAND_IN_SHARED"]
    first = ["g++", "-E", "-x", "c++", *flags, "-I", STUBS, "-include", "cuda_runtime.h", "-o", whole, source]
    if judge.run(list(map(str, first)), 120)[0] != 0:
        return None
    whole.write_text(launches_as_calls(whole.read_text()))
    second = ["g++", "-shared", "-x", "c++-cpp-output", *flags, "-ffp-contract=off", "-o", library, whole, "-ldl"]
    return library if judge.run(list(map(str, second)), 300)[0] == 0 else None


def call(library, launcher, arguments):
    """Calls a launcher. An argument is ("in", bytes), ("out", size), ("q" | "i" | "f", number) or ("stream",).

    Returns the outputs, or None where the call fails, changes an input or writes outside of an output.
    """
    with tempfile.TemporaryDirectory(prefix="kernels-evals-") as scratch:
        plan, regions = [], []
        for number, (kind, *value) in enumerate(arguments):
            if kind in ("in", "out"):
                inner = value[0] if kind == "in" else b"\xab" * value[0]
                path = Path(scratch) / str(number)
                path.write_bytes(b"\xcd" * GUARD + inner + b"\xcd" * GUARD)
                regions.append((kind, path, inner))
                plan.append(("file", (str(path), GUARD)))
            else:
                plan.append((kind, value[0] if value else 0))
        script = Path(scratch) / "call.py"
        script.write_text(CALL)
        code, _ = judge.python(script, library, launcher, json.dumps(plan), timeout=180)
        outputs = []
        for kind, path, inner in regions:
            after = path.read_bytes()
            held = after[:GUARD] == after[-GUARD:] == b"\xcd" * GUARD and len(after) == len(inner) + 2 * GUARD
            if not held or (kind == "in" and after[GUARD:-GUARD] != inner):
                return None
            if kind == "out":
                outputs.append(after[GUARD:-GUARD])
        return outputs if code == 0 else None


def floats(data, form="f"):
    """Numbers of little-endian bytes: `f` float, `e` half."""
    return struct.unpack(f"<{len(data) // struct.calcsize(form)}{form}", data)
