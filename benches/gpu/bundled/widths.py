"""Times the row kernels on shapes that a seed draws, beside torch, torch.compile, max-autotune and Liger in the same run, prints
the worst, and holds them against the bars.

A shape is an operation in bf16, a width from 64 to 16384 (or a head of that many), and as many rows as move between 50 KB and
400 MB. A third of the widths are multiples of 64, a third of 8, a third anything. Each shape is compiled for itself, by torch.compile and in its
mode max-autotune, in parallel processes before anything is timed. Shapes take turns between the operations, so that a run
that is cut short has as many of each; how many were timed is part of the record. With the same --seed and --out a later run
goes on where this one ended, on the same card and with the same packages. A row keeps the digest of the sources that it was timed
with; --again times those anew whose project has other sources now. Do not tune for what is drawn: mend the rule that failed.

Launches follow each other in a CUDA graph over tensors that together exceed the L2 (peers.py), so that each waits for the one
before it, as in a model. The bars, of a copy of the same bytes: 95 % from 64 MB on, 90 for gradients, 85 where rows are no
whole number of 16 bytes; and everywhere 0.98 of the fastest peer that is right.
"""

import argparse
import collections
import gc
import hashlib
import json
import math
import pathlib
import random
import sys

import evidence_form
from peers import clock, elapsed
from peers.row import NAMES, run_row

from .building import Libraries
from .main import ROOT, program
from .project import Project
from .report import best_peer, driver, label, table, versions
from .rows import Row

LARGE, ALIGNED, GRADIENT, UNALIGNED, BESIDE = 64.0, 0.95, 0.90, 0.85, 0.98
SMALLEST, LARGEST = 50e3, 400e6


def width_of(draw):
    """Log-uniform from 64 to 16384."""
    width = 64 * 2 ** draw.uniform(0, 8)
    step = draw.choice((64, 8, 1))
    return min(16384, max(64, round(width / step) * step))


def rows_of(draw, row_bytes):
    moved = SMALLEST * (LARGEST / SMALLEST) ** draw.random()
    return max(1, round(moved / row_bytes))


def plain(name, tensors):
    """Rows of one width in so many tensors."""

    def shape(draw):
        width = width_of(draw)
        return {"rows": rows_of(draw, 2 * tensors * width), name: width}

    return shape


def modulated(tensors, rows_of_modulation, norm):
    """One modulation for all rows, for each of two halves, or for each row, which then has so many rows more to read."""

    def shape(draw):
        parts = draw.choice((1, 2, 0))
        found = plain("width", tensors + (0 if parts else rows_of_modulation))(draw)
        found["rows_per_modulation"] = math.ceil(found["rows"] / parts) if parts else 1
        return {**found, "norm": draw.randint(0, 1)} if norm else found

    return shape


def heads(draw):
    head_dim, q_heads = draw.choice((64, 80, 96, 128, 256)), draw.choice((8, 12, 16, 24, 28, 32, 40, 64))
    k_heads = draw.choice([count for count in range(1, q_heads + 1) if q_heads % count == 0])
    return {"tokens": rows_of(draw, 4 * (q_heads + k_heads) * head_dim), "q_heads": q_heads, "k_heads": k_heads, "head_dim": head_dim}


# Of each operation its project, and how a shape is drawn.
DRAWN = {
    "rms_norm": ("rmsnorm", plain("width", 2)),
    "add_rms_norm": ("rmsnorm", plain("width", 4)),
    "rms_norm_backward": ("rmsnorm_backward", plain("width", 3)),
    "layer_norm": ("adaln", plain("width", 2)),
    "adaln": ("adaln", modulated(2, 2, True)),
    "gate_residual": ("adaln", modulated(3, 1, False)),
    "gate_residual_adaln": ("adaln", modulated(4, 3, True)),
    "swiglu": ("geglu", plain("width", 3)),
    "geglu": ("geglu", plain("inner", 3)),
    "rope": ("rope", heads),
    "qk_norm_rope": ("rope", heads),
    "softmax": ("softmax", plain("width", 2)),
}


def shapes(operation, seed, count):
    """The operation's draws: the first of them are the same for every count."""
    draw, found = random.Random(f"{operation} {seed}"), []
    while len(found) < count:
        shape = DRAWN[operation][1](draw)
        if shape not in found:
            found.append(shape)
    return found


def parse():
    parser = argparse.ArgumentParser(prog="widths.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", metavar="FILE", default=program(), help="the kernels program (default: KERNELS_PROGRAM, else of target/, else in PATH)")
    parser.add_argument("--projects", metavar="DIR", type=pathlib.Path, default=ROOT / "kernels", help="kernel projects (default: kernels/)")
    parser.add_argument("--library", action="append", default=[], metavar="FILE", help="a built library with launchers: its projects are not built; may be repeated")
    parser.add_argument("--build", metavar="DIR", help="where projects' libraries are built (default: a temporary folder)")
    parser.add_argument("--arch", default="90", help="what they are built for (default 90)")
    parser.add_argument("--only", action="append", choices=DRAWN, metavar="OPERATION", help=f"may be repeated; all: {', '.join(DRAWN)}")
    parser.add_argument("--shapes", type=int, default=40, metavar="N", help="an operation (default 40)")
    parser.add_argument("--seed", type=int, default=None, help="what is drawn (default: a fresh one, which is printed)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="no shape is begun after this (default 3600)")
    parser.add_argument("--compile-seconds", type=float, default=1800.0, help="what is not compiled by then is skipped (default 1800)")
    parser.add_argument("--workers", type=int, default=16, help="compiling processes (default 16)")
    parser.add_argument("--rounds", type=int, default=20, help="timed rounds, at least 20 (default 20)")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="the record, evidence/widths-CARD.json: written again after each shape; what it has of the same seed is not timed again")
    parser.add_argument("--again", action="store_true", help="draw nothing: time the rows of --out that were timed with other sources")
    parser.add_argument("--list", action="store_true", help="the shapes, a line of JSON each; needs no card and no torch")
    args = parser.parse_args()
    if args.rounds < 20 or args.shapes < 1:
        parser.error("--rounds: at least 20; --shapes: at least 1")
    if args.again and (not args.out or not args.out.is_file() or args.seed is not None):
        parser.error("--again: takes the rows of the record that --out names, and no --seed")
    args.seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    args.wanted = args.names = [name for name in NAMES if name not in ("quack", "blog")]
    args.everything, args.ruler, args.device, args.quack, args.blog = False, None, "cuda", None, None
    return args


def sources_of(project):
    """A digest of the files in its kernel_src."""
    digest = hashlib.sha256()
    for path in sorted(path for path in project.folder.glob("kernel_src/**/*") if path.is_file()):
        digest.update(f"{path.relative_to(project.folder).as_posix()}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def bound(args, projects, operation, shapes_of_it):
    name = DRAWN[operation][0]
    project = projects.setdefault(name, Project(args.program, args.projects / name))
    texts = [",".join(f"{key}={value}" for key, value in shape.items()) for shape in shapes_of_it]
    return [Row(case) for case in project.shaped([(operation, "bf16", text) for text in texts])]


def used(projects, rows):
    names = {row.case.operation.project for _, row in rows}
    return {name: project for name, project in projects.items() if name in names}


def drawn_rows(args, done):
    """The rows that are not done yet, an operation after the other in turn, each with its seed; and the projects they are of."""
    projects, turns = {}, []
    for operation in args.only or DRAWN:
        rows = bound(args, projects, operation, shapes(operation, args.seed, args.shapes))
        # An operation's number of a shape stays its own, whatever was done before.
        turns += [(number, row) for number, row in enumerate(rows) if key_of(operation, row.shape) not in done]
    rows = [(args.seed, row) for _, row in sorted(turns, key=lambda turn: turn[0])]
    return used(projects, rows), rows


def stale_rows(args, entries):
    """The same of a record's rows that were timed with other sources than their projects have."""
    projects, rows = {}, []
    for operation in args.only or DRAWN:
        name = DRAWN[operation][0]
        now = sources_of(projects.setdefault(name, Project(args.program, args.projects / name)))
        stale = [entry for entry in entries if entry["operation"] == operation and entry.get("sources") != now]
        found = bound(args, projects, operation, [entry["shape"] for entry in stale])
        rows += [(entry["seed"], row) for entry, row in zip(stale, found)]
    return used(projects, rows), rows


def key_of(operation, shape):
    return operation, json.dumps(shape, sort_keys=True)


def put(entries, entry):
    """In the place of the row of the same seed, operation and shape, else at the end."""
    key = entry["seed"], *key_of(entry["operation"], entry["shape"])
    places = [at for at, other in enumerate(entries) if (other["seed"], *key_of(other["operation"], other["shape"])) == key]
    if places:
        entries[places[0]] = entry
    else:
        entries.append(entry)


def compile_both(adapter):
    """One formulation, in both modes, for each shape."""
    if adapter is None:
        return
    names = adapter.compiled().get("compile", [])[-1:]
    adapter.compiled = adapter.compilations = lambda: {"compile": names, "compile-max": names}


def whole_packs(entry):
    shape = entry["shape"]
    size = shape.get("width") or shape.get("inner") or shape.get("head_dim") // 2
    return size * 2 % 16 == 0


def judged(entry):
    """Its share of the copy, its ratio to the best peer, and which bars it is under."""
    mine = entry["times_us"].get("kernels")
    if not mine or "kernels" in entry["wrong"]:
        return 0.0, 0.0, ["not timed or wrong"]
    share, (_, peer) = entry["copy_us"] / mine, best_peer(entry)
    ratio = peer / mine if peer else math.nan
    bar = UNALIGNED if not whole_packs(entry) else GRADIENT if entry["operation"].endswith("_backward") else ALIGNED
    under = [f"{100 * share:.1f} % of the copy, bar {100 * bar:.0f}"] if entry["mb"] >= LARGE and share < bar else []
    under += [f"{ratio:.3f} of the best peer"] if ratio < BESIDE else []
    return share, ratio, under


def summary(entries):
    """By operation: how many were timed, how many are under which bar; and the ten worst of all."""
    lines = [f"{'operation':24}{'timed':>6}{'under a bar':>13}{'least of the copy, large':>26}{'least beside the best peer':>28}"]
    of = collections.defaultdict(list)
    for entry in entries:
        of[entry["operation"]].append((entry, *judged(entry)))
    for operation, judgements in of.items():
        large = [share for entry, share, _, _ in judgements if entry["mb"] >= LARGE]
        ratios = [ratio for _, _, ratio, _ in judgements if not math.isnan(ratio)]
        under = sum(bool(faults) for *_, faults in judgements)
        least = f"{100 * min(large):.1f} %" if large else "-"
        lines.append(f"{operation:24}{len(judgements):6}{under:13}{least:>26}{f'{min(ratios):.3f}' if ratios else '-':>28}")
    worst = sorted(entries, key=lambda entry: min(judged(entry)[1], judged(entry)[0] if entry["mb"] >= LARGE else 9, 9))[:10]
    lines += ["", "the ten worst", table(worst), "", "under a bar"]
    lines += [f"{label(entry)} ({entry['mb']} MB): {'; '.join(faults)}" for entry in entries if (faults := judged(entry)[2])]
    return "\n".join(lines)


def begun(args, record):
    """The rows of the same seed that an earlier run recorded; those of other seeds stay in the record."""
    if not args.out or not args.out.is_file():
        return
    earlier = json.loads(args.out.read_text())
    for key in ("format", "card", "driver", "torch", "packages"):
        if earlier[key] != record[key]:
            sys.exit(f"{args.out} is of another {key}: {earlier[key]}, here {record[key]}; name another file with --out")
    record["rows"] = earlier["rows"]


def main():
    args = parse()
    entries = json.loads(args.out.read_text())["rows"] if args.out and args.out.is_file() else []
    if args.again:
        needed, rows = stale_rows(args, entries)
        print(f"{len(rows)} of {len(entries)} shapes were timed with other sources", flush=True)
    else:
        print(f"seed {args.seed}", flush=True)
        done = {key_of(entry["operation"], entry["shape"]) for entry in entries if entry["seed"] == args.seed}
        needed, rows = drawn_rows(args, set() if args.list else done)
    if args.list:
        for _, row in rows:
            print(json.dumps({"operation": row.case.operation.name, "shape": row.shape, "mb": round(row.case.bytes / 1e6, 3)}))
        return
    if args.again and not rows:
        return
    sources = {name: sources_of(project) for name, project in needed.items()}
    # Before torch starts the driver: the compiling processes are forked.
    record = {"format": 1, "driver": driver(), "packages": versions(args), "rounds": args.rounds}
    libraries = Libraries(list(needed.values()), args.library, args.build, args.arch)
    import torch

    torch.set_grad_enabled(False)
    from peers.through_inductor import configure

    from .compiling import compile_all

    for _, row in rows:
        compile_both(row.adapter)
    print(f"torch {torch.__version__}, {len(rows)} shapes to time [{clock()}]", flush=True)
    failed = compile_all([row for _, row in rows], args)
    for error in libraries.wait():
        print(f"  NOT BUILT {error}")
    if not torch.cuda.is_available():
        sys.exit("no CUDA device")
    configure()
    record = {"format": 1, "card": torch.cuda.get_device_name(0), "torch": torch.__version__, **record, "rows": []}
    begun(args, record)
    on, bad = torch.cuda.Stream(), []
    gc.freeze()
    for number, (seed, row) in enumerate(rows):
        if elapsed() > args.seconds:
            print(f"the run's {args.seconds:.0f} s are over: {len(rows) - number} shapes are left")
            break
        try:
            entry = {"seed": seed, "sources": sources[row.case.operation.project], **run_row(args, row, failed, libraries, on)}
        except Exception as error:  # the other rows still count
            bad.append(f"{row}: {type(error).__name__}: {error}")
            print(f"  FAILED {bad[-1]}", flush=True)
            continue
        entry["shape"] = row.shape
        put(record["rows"], entry)
        if args.out:
            evidence_form.write(args.out, record)
        torch.cuda.empty_cache()
    entries = [entry for entry in record["rows"] if args.again or entry["seed"] == args.seed]
    print(f"\n{len(entries)} shapes{'' if args.again else f' of seed {args.seed}'} [{clock()}]\n{summary(entries)}")
    wrong = [label(entry) for entry in entries if "kernels" in entry["wrong"] or "kernels" not in entry["times_us"]]
    for line in [*bad, *(f"{name}: ours is wrong or was not timed" for name in wrong)]:
        print(f"FAILED {line}")
    sys.exit(1 if bad or wrong else 0)
