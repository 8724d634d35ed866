"""Compiles a .cu file for the processor, with the headers of stubs/, and calls its launcher in a process of its own."""

import contextlib
import json
import os
import re
import struct
import tempfile
from pathlib import Path

import judge

STUBS = Path(__file__).resolve().parent / "stubs"
CALL = """
import ctypes, json, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
libc = ctypes.CDLL(None)
libc.mmap.restype, number = ctypes.c_void_p, ctypes.c_size_t
libc.mmap.argtypes = [ctypes.c_void_p, number, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def mapped(path, total, offset):
    # The file, over and over, between as much memory that nobody may touch.
    file, begin = path if isinstance(path, int) else os.open(path, os.O_RDWR), libc.mmap(None, 3 * total, 0, 0x4022, -1, 0) + total
    size = os.fstat(file).st_size
    for at in range(0, total, size):
        libc.mmap(begin + at, min(size, total - at), 3, 0x11, file, 0)
    return begin + offset
library, name, few, plan = ctypes.CDLL(sys.argv[1]), sys.argv[2], bool(int(sys.argv[3])), json.loads(sys.argv[4])
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
kinds = {"i": ctypes.c_int32, "q": ctypes.c_int64, "f": ctypes.c_float}
stream, values = ctypes.c_void_p(0x5eed0), []
for kind, value in plan:
    if kind == "map":
        values.append(ctypes.c_void_p(mapped(*value)))
    elif kind == "stream":
        values.append(stream)
    else:
        values.append(kinds[kind](value))
library.stand_in_expect(stream, ctypes.c_bool(few))
code = getattr(library, name)(*values)
library.stand_in_strayed.restype = ctypes.c_bool
sys.exit(4 if library.stand_in_strayed() else 3 if code else 0)
"""
PAGE = 4096
NAN = bytes([0xFF])  # floats of any width that are made of it


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


def compile(source, folder, most_shared=227 << 10):
    """The library, or None where the source is no plain CUDA C++. An access that is not aligned ends the process."""
    whole, library = folder / "unit.ii", folder / "unit.so"
    flags = ["-std=c++17", "-O1", "-fPIC", "-fno-gnu-unique", "-w", "-D__shared__=STAND_IN_SHARED", "-DSTAND_IN_JUDGE"]
    flags += [f"-DSTAND_IN_MOST_SHARED={most_shared}", "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]
    first = ["g++", "-E", "-x", "c++", *flags, "-I", STUBS, "-include", "cuda_runtime.h", "-o", whole, source]
    if judge.run(list(map(str, first)), 120)[0] != 0:
        return None
    whole.write_text(launches_as_calls(whole.read_text()))
    second = ["g++", "-shared", "-x", "c++-cpp-output", *flags, "-ffp-contract=off", "-o", library, whole, "-ldl"]
    return library if judge.run(list(map(str, second)), 300)[0] == 0 else None


def call(library, launcher, arguments, few=False):
    """Calls a launcher. An argument is ("in", bytes), ("out", size), ("q" | "i" | "f", number) or ("stream",). With a third member,
    a tensor is handed over from that byte on.

    Tensors end where a page ends, up to their alignment of 16 bytes; the rest of their pages is NaN, and the pages beyond cannot be
    touched. ("tiled", bytes, size) is an input of these bytes over and over, of whole pages; ("far", size) is an output that may be
    larger than memory. With `few`, the first, middle and last blocks of a grid run alone.

    Returns the outputs; of "far", the pages that were written, by their offset. Returns None where the call fails, launches on
    another stream, changes an input or writes outside of an output.
    """
    with tempfile.TemporaryDirectory(prefix="kernels-evals-") as scratch, contextlib.ExitStack() as stack:
        plan, regions, handed = [], [], []
        for number, (kind, *value) in enumerate(arguments):
            path = Path(scratch) / str(number)
            if kind == "far":  # in memory: a file's holes would count as written
                handed.append(os.memfd_create("far"))
                stack.callback(os.close, handed[-1])
                os.truncate(handed[-1], total := (value[0] + PAGE - 1) // PAGE * PAGE)
                regions.append((kind, handed[-1], b"", 0))
                plan.append(("map", (handed[-1], total, 0)))
            elif kind in ("in", "out", "tiled"):
                inner, total, offset = laid(path, kind, *value)
                regions.append((kind, path, inner, offset))
                plan.append(("map", (str(path), total, offset + (value[1] if kind in ("in", "out") and value[1:] else 0))))
            else:
                plan.append((kind, value[0] if value else 0))
        script = Path(scratch) / "call.py"
        script.write_text(CALL)
        code, _ = judge.python(script, library, launcher, int(few), json.dumps(plan), timeout=180, pass_fds=handed)
        outputs = []
        for kind, path, inner, offset in regions:
            if kind == "far":
                outputs.append(dict(written(path)))
                continue
            after = path.read_bytes()
            end = offset + len(inner)
            if (after[:offset] + after[end:]).strip(NAN) or (kind != "out" and after[offset:end] != inner):
                return None
            if kind == "out":
                outputs.append(after[offset:end])
        return outputs if code == 0 else None


def laid(path, kind, value, size=0):
    """Writes the file of a tensor: its contents, the size of its memory, and where in it the tensor begins."""
    if kind == "tiled":
        path.write_bytes(value)
        return value, size, 0
    inner = value if kind == "in" else bytes([0xAB]) * value
    whole = (len(inner) + 15) // 16 * 16
    size = (whole + 2 * PAGE - 1) // PAGE * PAGE
    path.write_bytes((NAN * (size - whole) + inner).ljust(size, NAN))
    return inner, size, size - whole


def written(file):
    """The pages of a file without content that have got one."""
    end, at = os.fstat(file).st_size, 0
    while at < end:
        try:
            begin = os.lseek(file, at, os.SEEK_DATA)
        except OSError:  # none behind
            return
        at = os.lseek(file, begin, os.SEEK_HOLE)
        yield begin, os.pread(file, at - begin, begin)


def floats(data, form="f"):
    """Numbers of little-endian bytes: `f` float, `e` half."""
    return struct.unpack(f"<{len(data) // struct.calcsize(form)}{form}", data)
