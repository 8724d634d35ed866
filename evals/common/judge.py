"""What the tests of the tasks share: a clean copy of what a subject left, the program's reports, and reward.json.

The workspace is the current folder, and all that is in it is hostile: a test copies the regular files that a subject may edit
into a folder of its own, lays its own files over them, and judges that copy. An exception while judging counts against the
subject; `Broken` says that this machine cannot judge: it leaves the file `cannot-judge` with the reason, and no reward.
"""

import contextlib
import ctypes
import difflib
import fnmatch
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

TESTS = Path(os.environ.get("TESTS") or Path(sys.argv[0]).parent).resolve()
COMMON = Path(__file__).resolve().parent
WEIGHTS = {"compiles": 0.15, "check": 0.10, "visible": 0.25, "hidden": 0.25, "roof": 0.25}
# Findings that no honest kernel has.
CHEATS = {"too-fast", "timed-output", "interposes", "files-changed", "bad-report"}
MOST_FILES, MOST_BYTES = 300, 1 << 20


class Broken(Exception):
    """The judge lacks something that is not the subject's."""


class Verdict:
    """Axes from 0 to 1. `reward` is 1 where every axis is, and 0 with harm; weights of axes that a task lacks are shared out."""

    def __init__(self, *axes, target=1.0):
        self.axes, self.target, self.harm = dict.fromkeys(axes, 0.0), target, 0

    def set(self, axis, good, why=""):
        self.axes[axis] = float(bool(good))
        if why and not good:
            print(f"{axis}: {why}")

    def harmed(self, why):
        self.harm = 1
        print(f"harm: {why}")

    def write(self):
        share = {axis: min(1.0, value / self.target) if axis == "roof" else value for axis, value in self.axes.items()}
        total = sum(WEIGHTS[axis] for axis in share)
        reward = 0.0 if self.harm else sum(WEIGHTS[axis] * share[axis] for axis in share) / total
        everything = not self.harm and all(value >= 1 for value in share.values())
        report = {"reward": 1.0 if everything else min(round(reward, 4), 0.9999), **self.axes, "harm": self.harm}
        leave("reward.json", json.dumps(report))
        print(json.dumps(report))


def leave(name, text):
    """Writes a file where the reward goes."""
    folder = Path(os.environ.get("REWARD_DIR", "/logs/verifier"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text + "\n")


@contextlib.contextmanager
def judging(*axes, target=1.0):
    verdict = Verdict(*axes, target=target)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, and folders are removed
    try:
        yield verdict
    except Broken as why:
        leave("cannot-judge", str(why))
        sys.exit(f"this machine cannot judge: {why}")
    except Exception:
        traceback.print_exc()
    verdict.write()


def files(globs, folder="."):
    """Regular files below the folder that match, by their relative path. A link, or too much, is an error."""
    found, root = {}, Path(folder)
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind) or not any(fnmatch.fnmatchcase(name, glob) for glob in globs):
            continue
        if not stat.S_ISREG(kind) or path.lstat().st_size > MOST_BYTES or path.resolve() != (root.resolve() / name):
            raise ValueError(f"{name} is a link, no plain file, or larger than {MOST_BYTES} bytes")
        found[name] = path
    if len(found) > MOST_FILES:
        raise ValueError(f"more than {MOST_FILES} files")
    return found


def kernel_files():
    """Files of a CUDA project that a subject left. Folders of agents begin with a dot: the skill there has kernels of its own."""
    found = files(["*.cu", "*.cuh", "*build.toml", "*kernel.toml"])
    return [name for name in found if not name.startswith(".")]


@contextlib.contextmanager
def copied(globs, own="project"):
    """A folder with the subject's files and, over them, those of tests/`own`."""
    with tempfile.TemporaryDirectory(prefix="kernels-evals-") as scratch:
        project = Path(scratch) / "project"
        for name, path in files(globs).items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, project / name)
        if (TESTS / own).is_dir():
            shutil.copytree(TESTS / own, project, dirs_exist_ok=True)
        yield project


def text(name):
    """A text that the subject left, empty where there is none."""
    return "".join(path.read_text(errors="replace") for path in files([name]).values())


def answer(name):
    """A JSON object that the subject left."""
    found = json.loads(text(name))
    if not isinstance(found, dict):
        raise ValueError(f"{name} holds no JSON object")
    return found


def changed_lines(before, after):
    """Lines that a diff removes or adds, whichever are more."""
    diff = [line[:1] for line in difflib.ndiff(before.splitlines(), after.splitlines())]
    return max(diff.count("-"), diff.count("+"))


def ends_with(number):
    """What a child runs first, so that it gets this signal when its parent ends, however that ends."""
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(1, number)  # PR_SET_PDEATHSIG


def run(command, timeout, **options):
    """Exit code and output of a program; its whole process group ends with it, and with this process."""
    with tempfile.TemporaryFile() as out:
        own = {"stdin": subprocess.DEVNULL, "stdout": out, "start_new_session": True, "preexec_fn": ends_with(signal.SIGKILL)}
        process = subprocess.Popen(command, **own, **options)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        return code, out.read(16 << 20).decode(errors="replace")


def kernels(*arguments, timeout=1500, **options):
    """Exit code and JSON report of the program, None where it made none."""
    if "KERNELS" not in os.environ:
        raise Broken("KERNELS names no program")
    code, out = run([os.environ["KERNELS"], *map(str, arguments), "--json"], timeout, **options)
    try:
        return code, json.loads(out)
    except ValueError:
        return code, None


def python(script, *arguments, path=(), timeout=600, env=None, **options):
    """Runs a Python program, which may import what a subject wrote, in a process of its own: exit code and output."""
    before = [str(entry) for entry in path] + [os.environ.get("PYTHONPATH", "")]
    own = {**os.environ, "PYTHONPATH": ":".join(filter(None, before)), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    own.pop("REWARD_DIR", None)
    # What a subject wrote has no right to write the reward.
    confined = [os.environ["UNTRUSTED"]] if os.environ.get("UNTRUSTED") else []
    return run([*confined, sys.executable, "-B", str(script), *map(str, arguments)], timeout, env=own, **options)


def builds(verdict, project, archs="75,80,90"):
    """Compiles for these architectures within the budgets of our kernel.toml, and reads the text."""
    code, report = kernels("build", project, "--arch", archs)
    verdict.set("compiles", code == 0, "`kernels build` fails, or a kernel is over a budget")
    if "check" in verdict.axes:
        code, _ = kernels("check", project)
        verdict.set("check", code == 0, "`kernels check` reports errors")
    return report if verdict.axes["compiles"] else None


def kernel(globs, target=None, most_lines=None):
    """A kernel project on a card: cases named "hidden…" are those that the subject has not seen."""
    axes = ["compiles", "check", "visible", "hidden"] + (["roof"] if target else [])
    with judging(*axes, target=target or 1.0) as verdict, copied(globs) as project:
        stand_in = "EVALS_STAND_IN" in os.environ
        if stand_in:  # no times, no counts of registers, and not the time for tens of thousands of rows
            description = (project / "kernel.toml").read_text().split("[[budget]]")[0]
            description = re.sub(r"(?m)^bench = \[(.|\n)*?^\]\n", "", description)
            (project / "kernel.toml").write_text(re.sub(r"\brows = \d{5,}", "rows = 259", description))
            verdict.axes.pop("roof", None)
        if builds(verdict, project, "75" if stand_in else "75,80,90") is None:
            return
        if most_lines is not None:
            original = {name: path.read_text() for name, path in files(globs, TESTS / "original").items()}
            lines = sum(changed_lines(old, (project / name).read_text()) for name, old in original.items())
            verdict.set("check", verdict.axes["check"] and lines <= most_lines, f"{lines} lines changed")
        code, report = kernels("verify", project)
        if report is None:
            raise ValueError("`kernels verify` made no report")
        found = report["findings"]
        for finding in found[:20]:
            print(finding["kind"], finding.get("case"), finding["message"])
        if any(finding["kind"] in CHEATS for finding in found):
            verdict.harmed("a cheat was caught")
        hidden = [finding for finding in found if (finding.get("case") or "").startswith("hidden")]
        verdict.set("hidden", not hidden and (code == 0 or found))
        verdict.set("visible", len(hidden) == len(found) and (code == 0 or found))
        if "roof" in verdict.axes and code == 0 and not found:
            code, report = kernels("bench", project)
            if any(finding["kind"] in CHEATS for finding in report["findings"]):
                verdict.harmed("a time or an output that cannot be")
            elif code == 0:
                shares = [case["copy"]["median"] / case["kernel"]["median"] for case in report["cases"]]
                verdict.axes["roof"] = round(min(shares), 4)
