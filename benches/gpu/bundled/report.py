"""The report of a run: the table, versions, and the comparison with the harness."""

import importlib.metadata
import json
import pathlib
import subprocess

from peers.peer_modules import described
from peers.row import NAMES

PACKAGES = ["torch", "triton", "liger-kernel", "quack-kernels", "nvidia-cutlass-dsl", "apache-tvm-ffi"]


def versions(args):
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    note = pathlib.Path(args.blog).with_suffix(".txt") if args.blog else None
    if note and note.is_file():
        found["blog"] = note.read_text().strip()
    return found


def driver():
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=True, timeout=20
        )
        return said.stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown: {described(error)}"


def best_peer(entry):
    """The fastest peer that is right and computes the same, with its time."""
    out = {"kernels", *entry["wrong"], *entry.get("other", {})}
    times = {name: time_us for name, time_us in entry["times_us"].items() if name not in out}
    return min(times.items(), key=lambda item: item[1]) if times else (None, None)


def label(entry):
    """Short: the sizes by which a bench case differs, without its title."""
    case = entry.get("case")
    words = case.rsplit(": ", 1)[-1] if case else " ".join(f"{name}={value}" for name, value in entry["shape"].items())
    words = words if words.endswith(entry["dtype"]) else f"{words} {entry['dtype']}"
    return f"{entry['operation']} {words}"


def table(entries):
    """us a launch; * the best peer; ! wrong; ~ computes something else; - not timed."""
    wide = max([34, *(len(label(entry)) for entry in entries)])
    lines = [f"{'us a launch':{wide}}{'MB':>8}{'copy':>9}" + "".join(f"{name:>13}" for name in NAMES) + "  of copy  peer/ours"]
    for entry in entries:
        peer, peer_us = best_peer(entry)
        cells = []
        for name in NAMES:
            value = entry["times_us"].get(name)
            mark = "!" if name in entry["wrong"] else "~" if name in entry.get("other", {}) else "*" if name == peer else " "
            cells.append(f"{'-' if value is None else f'{value:.2f}'}{mark}".rjust(13))
        mine = entry["times_us"].get("kernels")
        of_copy = f"{100 * entry['copy_us'] / mine:6.1f} %" if mine else f"{'-':>8}"
        ahead = f"{peer_us / mine:8.3f}x" if mine and peer else f"{'-':>9}"
        lines.append(f"{label(entry):{wide}}{entry['mb']:8.1f}{entry['copy_us']:9.2f}{''.join(cells)} {of_copy} {ahead}")
    return "\n".join(lines)


def same(one, other):
    """Whether two rows are of the same case: the sizes that both name are equal, and one names all of the other's."""
    if (one["operation"], one["dtype"]) != (other["operation"], other["dtype"]):
        return False
    fewer, more = sorted((one["shape"], other["shape"]), key=len)
    near = abs(one["mb"] - other["mb"]) <= 0.02 * one["mb"] + 0.05
    return near and all(name in more and more[name] == value for name, value in fewer.items())


def kept(path, report):
    """The rows of an earlier file of the same card and the same packages that this run did not time again.

    What is not installed here is kept as well, into the report: the earlier rows were timed beside it, none of these.
    """
    earlier = json.loads(pathlib.Path(path).read_text())
    for key in ("format", "card", "driver", "torch"):
        if earlier.get(key) != report[key]:
            raise ValueError(f"{path} is of another {key}: {earlier.get(key)}, here {report[key]}")
    for name, version in earlier["packages"].items():
        if report["packages"].setdefault(name, version) != version:
            raise ValueError(f"{path} is of another {name}: {version}, here {report['packages'][name]}")
    report["allocates"] += [name for name in earlier["allocates"] if name not in report["allocates"]]
    return [row for row in earlier["rows"] if not any(same(row, new) for new in report["rows"])]


def agreement(paths, entries, limit):
    """Whether the harness's medians and ours here lie within `limit` of each other, case by case."""
    cases = [case for path in paths for case in json.loads(pathlib.Path(path).read_text())["cases"]]
    print(f"\n{'harness beside torch graphs, us':70}{'harness':>10}{'here':>10}{'differ':>9}{'copy':>10}{'here':>10}{'differ':>9}")
    compared, apart = 0, 0
    for case in cases:
        if case.get("residency", "cold") != "cold":
            continue
        entry = next(
            (
                entry
                for entry in entries
                if (entry["operation"], entry["dtype"]) == (case["operation"], case["dtype"])
                and entry["shape"] == case["values"]
                and "kernels" in entry["times_us"]
            ),
            None,
        )
        name = f"{case['operation']} {case['case']}"
        if entry is None:
            print(f"{name:70}  not timed here")
            continue
        theirs, here = case["kernel"]["median"], entry["times_us"]["kernels"]
        roof, roof_here = case["copy"]["median"], entry["copy_us"]
        differ = theirs / here - 1
        compared += 1
        apart += abs(differ) > limit
        over = "  OVER" if abs(differ) > limit else ""
        print(f"{name:70}{theirs:10.2f}{here:10.2f}{100 * differ:+8.1f}%{roof:10.2f}{roof_here:10.2f}{100 * (roof / roof_here - 1):+8.1f}%{over}")
    print(f"{compared - apart} of {compared} within {100 * limit:.0f} %" if compared else "nothing to compare: no case of the harness's was timed here")
    return compared > 0 and apart == 0
