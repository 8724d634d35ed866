"""What the tests of the skill's scripts share: where the scripts are, and three ways to run one."""

import atexit
import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "skills" / "cuda-kernels" / "scripts"
# Nothing is written beside the scripts.
QUIET = {"PYTHONDONTWRITEBYTECODE": "1"}
# What the scripts import.
IMPORTS = (
    "torch",
    "kernels",
    "diffusers.models.transformers.transformer_ltx",
    "transformers.models.qwen3.modeling_qwen3",
)
NAMES = (
    "benchmark_example",
    "benchmark_rmsnorm",
    "huggingface_kernels_example",
    "ltx_kernel_injection_example",
    "transformers_injection_example",
)


def load(name, text=None):
    """A fresh module of the script, or of a text in its place."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    if text is None:
        spec.loader.exec_module(module)
    else:
        exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def call(monkeypatch, capsys, module, *arguments):
    """main() in this process, with --json: (exit code, the report, stderr). The report is None where there is none."""
    monkeypatch.setattr(sys, "argv", ["script.py", *map(str, arguments), "--json"])
    stdout = sys.stdout  # the script takes it for the report
    try:
        code = module.main()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.stdout = stdout
    out, err = capsys.readouterr()
    return code, parsed(out) if out.strip() else None, err


def parsed(text):
    """JSON as others read it: Python's own reader takes NaN as well."""

    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@functools.cache
def forked():
    """tests/support/forked.py, which runs scripts behind one import of torch and the models' libraries."""
    server = subprocess.Popen(
        [sys.executable, ROOT / "tests/support/forked.py", *IMPORTS],
        env={**os.environ, **QUIET, "HF_HUB_OFFLINE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    return server


def run(name, *arguments, python=None, **environment):
    """The script in a process of its own, of this `python` or of the forked one: (exit code, stdout, stderr)."""
    argv = [str(SCRIPTS / f"{name}.py"), *map(str, arguments)]
    env = {**os.environ, **QUIET, "HF_HUB_OFFLINE": "1", **environment}
    if python:
        done = subprocess.run([*python, *argv], env=env, capture_output=True, text=True, timeout=600)
        return done.returncode, done.stdout, done.stderr
    server = forked()
    print(json.dumps({"argv": argv, "env": env}), file=server.stdin, flush=True)
    done = json.loads(server.stdout.readline())
    return done["code"], done["out"], done["err"]


def sabotaged(name, *changes):
    """The script's text with each (old, new) done once."""
    text = (SCRIPTS / f"{name}.py").read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"{text.count(old)} times in {name}: {old}"
        text = text.replace(old, new)
    return text
