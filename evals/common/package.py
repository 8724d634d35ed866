"""A package for the Kernel Hub: checked, built, and loaded as the Hub's library loads it, under a name of its own, on a CPU."""

import json
import random
import re
import shutil
import sys

import judge


def checked(verdict, project, globs, repository):
    """Sets `check`; whether the check has no errors: what it names fails in a build."""
    code, _ = judge.kernels("check", project)
    strict, _ = judge.kernels("check", project, "--strict")
    allowed = any(re.search(r"kernels:\s*allow", path.read_text(errors="replace")) for path in judge.files(globs, project).values())
    named = re.search(rf'(?m)^\s*repo-id\s*=\s*"{repository}"', (project / "build.toml").read_text())
    verdict.set("check", strict == 0 and not allowed and named is not None, "findings, an exception, or another repository")
    return code == 0


def built(project):
    """Exit code of the build, with the headers of this Python's torch, else those that the program finds."""
    for python in [["--python", sys.executable], []]:
        code, report = judge.kernels("build", "--torch", *python, project)
        error = str((report or {}).get("error"))
        if not error.startswith("no torch headers"):
            return code
    raise judge.Broken(error)


def loaded(folder, call, given):
    """What a program prints that gets the package's folder and name, and something to compute: JSON."""
    name = f"kernel_{random.randrange(1 << 40)}"
    shutil.copytree(next((folder / "build").glob("torch-stable-abi*")), folder / "loaded" / name)
    script = folder / "loaded/call.py"
    script.write_text(call)
    code, out = judge.python(script, folder / "loaded", name, json.dumps(given), timeout=300)
    if code != 0:
        raise ValueError(f"the package cannot be loaded:\n{out[-2000:]}")
    return json.loads(out.splitlines()[-1])
