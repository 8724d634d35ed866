#!/usr/bin/env python3
"""Times experimental changes of kernels/ (trials.toml in this folder) and the original kernels on one GPU in one run.

    benches/gpu/trials.py PROGRAM OUT [--only TEXT] [--keep FILE]

PROGRAM is the kernels binary. OUT is the record, evidence/trials-GPU.json. It has for each trial the changes, the digest of the
original device code, and for each case the medians in microseconds of the original, of the changed kernel and of a copy beside
each. The original is timed before and after the changed kernel; the time closer to that of the change is used, so that a
warming GPU does not affect the result. Needs nvcc but not torch. Exits with 1 if a trial does not build, or is wrong.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor

import evidence_form

ROOT = pathlib.Path(__file__).resolve().parents[2]


def copied(trial, folder):
    """The trial's project, changed, in `folder`."""
    target = folder / trial["name"].replace(" ", "_").replace(",", "")
    shutil.copytree(ROOT / "kernels" / trial["project"], target, ignore=shutil.ignore_patterns("build"))
    for edit in trial["edits"]:
        path = target / "kernel_src" / edit["file"]
        text = path.read_text()
        if text.count(edit["from"]) != 1:
            sys.exit(f"{trial['name']}: {edit['from']!r} stands {text.count(edit['from'])} times in {edit['file']}")
        path.write_text(text.replace(edit["from"], edit["to"]))
    # What a change costs in registers is part of what it is.
    manifest = target / "kernel.toml"
    manifest.write_text(manifest.read_text().split("[[budget]]")[0])
    return target


def build(program, project):
    done = subprocess.run([program, "build", "--quiet", str(project)], capture_output=True, text=True)
    return done.stderr if done.returncode else None


def bench(program, project, trial, folder):
    """{case: its times}, from device memory."""
    times = {}
    for case in trial["cases"]:
        out = folder / "bench.json"
        label, dtype = case.rsplit(" ", 1)
        command = [program, "bench", "--quiet", str(project), "--filter", label, "--dtype", dtype, "--export", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        found = [
            timed
            for timed in json.loads(out.read_text())["cases"]
            if (timed["operation"], timed["case"], timed["residency"]) == (trial["operation"], case, "cold")
        ]
        if len(found) != 1:
            raise RuntimeError(f"{trial['name']}: {len(found)} times of {case}")
        times[case] = {of: {k: round(found[0][of][k], 3) for k in ("median", "p10", "p90")} for of in ("kernel", "copy")}
    return times


def digest(trial, out):
    """Of the device code that the evidence is of: what was recorded in the same folder, else what is committed. Tests hold
    that against the sources."""
    name = f"{trial['operation']}{out.name.removeprefix('trials')}"
    path = next(folder / name for folder in (out.parent, ROOT / "evidence") if (folder / name).is_file())
    return json.loads(path.read_text())["device_digest"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the kernels binary")
    parser.add_argument("out", type=pathlib.Path, help="the record to write: trials-CARD.json")
    parser.add_argument("--only", metavar="TEXT", help="only trials whose name has TEXT")
    parser.add_argument("--keep", metavar="FILE", type=pathlib.Path, help="an earlier record of the same card: its other trials are kept")
    args = parser.parse_args()
    trials = tomllib.loads((pathlib.Path(__file__).with_suffix(".toml")).read_text())["trial"]
    chosen = [trial for trial in trials if not args.only or args.only in trial["name"]]
    if not chosen:
        sys.exit(f"--only leaves no trial; there are: {', '.join(trial['name'] for trial in trials)}")
    said = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=True
    ).stdout
    card, driver = said.splitlines()[0].split(", ")
    record = {"format": 1, "card": card, "driver": driver, "trials": []}
    if args.keep:
        earlier = json.loads(args.keep.read_text())
        for key in ("format", "card", "driver"):
            if earlier[key] != record[key]:
                sys.exit(f"{args.keep} is of another {key}: {earlier[key]}, here {record[key]}")
        record["trials"] = [old for old in earlier["trials"] if old["name"] not in {trial["name"] for trial in chosen}]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="kernels-trials-") as scratch:
        folder = pathlib.Path(scratch)
        changed = {trial["name"]: copied(trial, folder) for trial in chosen}
        bases = {trial["project"]: ROOT / "kernels" / trial["project"] for trial in chosen}
        with ThreadPoolExecutor() as pool:
            projects = [*bases.values(), *changed.values()]
            wrong = dict(zip(projects, pool.map(lambda project: build(args.program, project), projects)))
        for trial in chosen:
            base, change = bases[trial["project"]], changed[trial["name"]]
            try:
                if wrong[base] or wrong[change]:
                    raise RuntimeError(wrong[base] or wrong[change])
                first, then, last = (bench(args.program, project, trial, folder) for project in (base, change, base))
            except RuntimeError as error:
                print(f"FAILED {trial['name']}: {error}", flush=True)
                failed += 1
                continue
            cases = []
            for case in trial["cases"]:
                mine = then[case]
                beside = min((first[case], last[case]), key=lambda times: abs(times["kernel"]["median"] - mine["kernel"]["median"]))
                cases.append({"case": case, "as_it_is": beside, "changed": mine})
                slower = 100 * (mine["kernel"]["median"] / beside["kernel"]["median"] - 1)
                share = [100 * times["copy"]["median"] / times["kernel"]["median"] for times in (beside, mine)]
                print(f"{trial['name']:45}{case:75}{slower:+7.1f} %  copy {share[0]:.1f}, {share[1]:.1f} %", flush=True)
            record["trials"].append({**{key: trial[key] for key in ("name", "project", "operation", "edits")}, "device_digest": digest(trial, args.out), "cases": cases})
    order = [trial["name"] for trial in trials]
    record["trials"].sort(key=lambda entry: order.index(entry["name"]) if entry["name"] in order else len(order))
    evidence_form.write(args.out, record)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
