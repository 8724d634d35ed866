"""Times every operation of kernels/ and its peers on one GPU in one run, and writes one JSON.

A row is a bench case of a project. Our launcher is called through ctypes with the arguments of kernel.toml; the peers are in
src/against/python/peers/operations. For each candidate, the launches over `n` rotating sets of tensors (n sets hold more than
4 x the L2) are captured in a CUDA graph. The graphs are replayed in turn, round after round, beside copies of the same bytes.
Times are microseconds per launch: median, tenth and ninetieth percentile.

Before timing, outputs are filled with NaN, the graph is replayed, and the complete outputs of the first and last set are
compared with double precision (in-place operations are run once on fresh inputs). Peers with wrong results are not compared.
Peers that are not installed, fail, are not built or take too long are listed with the reason in the table and under `skipped`.
Peers that compute another function than the model's are timed, and listed under `other`.

Peers are compiled first, in parallel processes that share compile caches; measurements on the GPU never overlap.
"""

import argparse
import collections
import gc
import json
import os
import pathlib
import sys

import evidence_form
from peers import clock, elapsed
from peers.row import NAMES, PEERS, run_row

from .building import Libraries
from .project import projects
from .rows import all_rows

ROOT = pathlib.Path(__file__).resolve().parents[3]
EPILOG = """
--blog: a shared object with launchers of burtenshaw/kernel-skill, examples/ltx_video, bf16, as extern "C" as they are there:
  rmsnorm_forward_bf16, rmsnorm_residual_forward_bf16, adaln_rmsnorm_forward_bf16, adaln_layernorm_forward_bf16,
  geglu_forward_bf16, geglu_exact_forward_bf16, swiglu_forward_bf16, rope_3d_forward_bf16;
a missing one is named. A file of the same name ending in .txt says which revision it is.
"""


def program():
    """The kernels program, which reads the projects."""
    built = [str(ROOT / "target" / profile / "kernels") for profile in ("release", "debug")]
    return os.environ.get("KERNELS_PROGRAM") or next((path for path in built if os.path.isfile(path)), "kernels")


def parse():
    parser = argparse.ArgumentParser(
        prog="peers.py", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", metavar="FILE", default=program(), help="the kernels program (default: KERNELS_PROGRAM, else of target/, else in PATH)")
    parser.add_argument("--projects", metavar="DIR", default=str(ROOT / "kernels"), help="kernel projects (default: kernels/)")
    parser.add_argument("--library", action="append", default=[], metavar="FILE", help="a built library with launchers: its projects are not built; may be repeated")
    parser.add_argument("--build", metavar="DIR", help="where projects' libraries are built (default: a temporary folder)")
    parser.add_argument("--arch", default="90", help="what they are built for (default 90)")
    parser.add_argument("--blog", metavar="FILE", help="shared object with the blog's launchers, below")
    parser.add_argument("--quack", metavar="DIR", help="QuACK's kernels compiled ahead, as rms_norm_4096.so: instead of the installed package")
    parser.add_argument("--out", help="where the JSON goes; written again after each row")
    parser.add_argument("--keep", metavar="FILE", help="an earlier JSON of the same card and packages: its rows that are not timed here are kept")
    parser.add_argument("--rounds", type=int, default=30, help="timed rounds, at least 20 (default 30)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="only rows whose name has TEXT, such as 'add_rms_norm ' or 'bf16'; may be repeated")
    parser.add_argument("--without", action="append", default=[], choices=PEERS, help="leave a peer out; may be repeated")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="compiling processes")
    parser.add_argument("--compile-seconds", type=float, default=80.0, help="what is not compiled by then is skipped (default 80)")
    parser.add_argument("--seconds", type=float, default=160.0, help="no torch.compile candidate and no row of f16 or f32 is begun after this (default 160)")
    parser.add_argument("--against-harness", action="append", default=[], metavar="BENCH.JSON", help="compare with a report of `kernels bench --json`; 1 is returned over --within; may be repeated")
    parser.add_argument("--within", type=float, default=3.0, help="per cent (default 3)")
    parser.add_argument("--list", action="store_true", help="the rows in their order, a line of JSON each; needs no card and no torch")
    parser.add_argument("--cpu", action="store_true", help="holds the formulas against each other and the projects' fixtures on the CPU, and exits")
    args = parser.parse_args()
    if args.rounds < 20:
        parser.error("--rounds: at least 20")
    args.wanted = [name for name in NAMES if name not in args.without]
    args.names, args.everything, args.ruler, args.device = NAMES, False, None, "cuda"
    return args


def chosen_rows(args):
    found, unreadable = projects(args.program, args.projects)
    for name, why in unreadable.items():
        print(f"  SKIPPED project {name}: {why}")
    rows = [row for row in all_rows(found) if not args.only or any(text in f"{row} " for text in args.only)]
    if not rows:
        sys.exit(f"--only leaves no row; there are: {', '.join(map(str, all_rows(found)))}")
    return [project for project in found if any(row.case.operation.project == project.name for row in rows)], rows


def listed(row):
    """A row before it is timed. `arguments`: of the launcher, tensors by name."""
    arguments = [what if kind == "tensor" else kind if kind == "stream" else what for kind, what in row.case.plan]
    return {
        "operation": row.case.operation.name,
        "case": row.case.label,
        "dtype": row.case.dtype,
        "bytes": row.case.bytes,
        "values": row.shape,
        "arguments": arguments,
        **({"unchecked": row.unknown} if row.unknown else {}),
    }


def main():
    args = parse()
    if args.cpu:
        from .cpu import check

        sys.exit(check(args))
    needed, rows = chosen_rows(args)
    if args.list:
        for row in rows:
            print(json.dumps(listed(row)))
        return
    # Its compilers run while torch is imported and the peers are compiled.
    libraries = Libraries(needed, args.library, args.build, args.arch)
    import torch

    print(f"torch {torch.__version__}, {len(rows)} rows [{clock()}]", flush=True)
    torch.set_grad_enabled(False)
    from peers.through_inductor import configure

    from .compiling import compile_all
    from .report import agreement, driver, kept, label, table, versions

    failed = compile_all(rows, args)
    told = collections.defaultdict(list)
    for (name, formulation, row), reason in failed.items():
        told[name, formulation, reason].append(row)
    for (name, formulation, reason), which in told.items():
        print(f"  NOT COMPILED {name} {formulation}: {reason}: {len(which)} rows: {'; '.join(which)}")
    for error in libraries.wait():
        print(f"  NOT BUILT {error}")
    print(f"projects built [{clock()}]", flush=True)
    if not torch.cuda.is_available():
        sys.exit("no CUDA device")
    configure()
    report = {
        "format": 1,
        "card": torch.cuda.get_device_name(0),
        "driver": driver(),
        "torch": torch.__version__,
        "packages": versions(args),
        # Their outputs come from the graph's pool, and rotate over the same sets.
        "allocates": [name for name in ("torch", "compile", "compile-max", "liger", "quack") if name in args.wanted],
        "rounds": args.rounds,
        "rows": [],
    }
    print(f"{report['card']}, driver {report['driver']}, {report['packages']}", flush=True)
    on, bad, new = torch.cuda.Stream(), [], []
    gc.freeze()  # what is imported is not looked through after each row
    earlier = []
    if args.keep:
        try:
            earlier = kept(args.keep, report)
        except (OSError, ValueError) as error:
            print(f"  NOT KEPT: {error}")
    for row in rows:
        if row.case.dtype != "bf16" and elapsed() > args.seconds:
            print(f"  SKIPPED {row}: the run's {args.seconds:.0f} s are over")
            continue
        began = elapsed()
        try:
            new.append(run_row(args, row, failed, libraries, on))
        except Exception as error:  # the other rows still count
            bad.append(f"{row}: {type(error).__name__}: {error}")
            print(f"  FAILED {bad[-1]}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        print(f"{row}: {elapsed() - began:.1f} s [{clock()}]", flush=True)
        if args.out:
            from .report import same

            report["rows"] = new + [old for old in earlier if not any(same(old, entry) for entry in new)]
            evidence_form.write(args.out, report)
    counters = torch._dynamo.utils.counters
    print(f"compile caches: {dict(counters['aot_autograd'])}, {({k: v for k, v in counters['inductor'].items() if 'fxgraph' in k})}")
    print("\n" + table(new))
    for entry in new:
        if "kernels" in entry["wrong"]:
            bad.append(f"{label(entry)}: ours is wrong")
        elif "kernels" not in entry["times_us"]:
            bad.append(f"{label(entry)}: ours was not timed: {entry['skipped'].get('kernels')}")
    for line in bad:
        print(f"FAILED {line}")
    agrees = not args.against_harness or agreement(args.against_harness, new, args.within / 100)
    print(f"[{clock()}]", flush=True)
    sys.exit(0 if agrees and not bad else 1)
