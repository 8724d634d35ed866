"""Tests that need neither torch nor a GPU, and the scripts' messages when these are missing."""

import ast
import json
import re
import signal
import subprocess
import sys

import pytest
from support import NAMES, SCRIPTS, load, parsed, run

BARE = (sys.executable, "-I", "-S")  # no site-packages: the standard library alone

# SKILL.md, the references and agents' scripts use these flags. Flags may be added; removing one requires a new version of
# the skill.
FLAGS = {
    "benchmark_example": (
        "--candidate --reference --shape --check --misaligned --check-only --cpu --dtype --against --rounds --bytes --ulps"
        " --of-row --symbol --nvcc-flags --write-example --seed --json"
    ),
    "benchmark_rmsnorm": (
        "--source --kernel --symbol --nvcc-flags --version --download --trust-remote-code --shape --dtype --against"
        " --check-only --cpu --rounds --seed --json"
    ),
    "huggingface_kernels_example": (
        "--path --repo --version --revision --trust-remote-code --download --check-rms-norm --layer --dtype --cpu --seed --json"
    ),
    "ltx_kernel_injection_example": (
        "--kernel --size --smoke --layers --tokens --batch --dtype --no-fp32 --cpu --bench --rounds --seed --json"
    ),
    "transformers_injection_example": (
        "--kernel --family --smoke --layers --tokens --batch --dtype --no-fp32 --cpu --bench --rounds --seed --json"
    ),
}


def test_every_script_is_known():
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(NAMES) == set(FLAGS)


@pytest.mark.parametrize("name", NAMES)
def test_help_needs_the_standard_library_alone(name):
    code, out, err = run(name, "--help", python=BARE)
    assert (code, err) == (0, "")
    assert set(FLAGS[name].split()) | {"--help"} == set(
        re.findall(r"(?<![\w-])--[a-z][\w-]*(?= |,|\n|$)", out.split("options:")[1])
    )
    assert "Exit code" in out


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_help_have_flags_that_exist(name):
    text = load(name).__doc__
    lines = re.findall(rf"^    python {name}\.py.*$", text, re.M)
    assert lines
    for line in lines:
        assert set(re.findall(r"--[a-z][\w-]*", line.split("#")[0])) <= set(FLAGS[name].split()), line


@pytest.mark.parametrize("name", NAMES)
def test_without_torch(name):
    code, out, err = run(name, python=BARE)
    assert (code, out) == (2, "")
    assert "torch is not installed" in err and "Traceback" not in err


@pytest.mark.parametrize(
    "name, arguments, step",
    [
        ("benchmark_example", [], "--cpu"),
        ("benchmark_rmsnorm", [], "--cpu"),
        ("ltx_kernel_injection_example", [], "--cpu"),
        ("transformers_injection_example", [], "--cpu"),
        ("huggingface_kernels_example", ["--path", ".", "--check-rms-norm"], "--check-rms-norm"),
    ],
)
def test_without_a_card(name, arguments, step):
    code, out, err = run(name, *arguments, CUDA_VISIBLE_DEVICES="")
    assert (code, out) == (2, "")
    assert "no CUDA device is visible to torch" in err and step in err and "Traceback" not in err


@pytest.mark.parametrize(
    "name, module",
    [
        ("ltx_kernel_injection_example", "diffusers"),
        ("transformers_injection_example", "transformers"),
        ("huggingface_kernels_example", "kernels"),
    ],
)
def test_without_the_models_library(name, module, tmp_path):
    (tmp_path / f"{module}.py").write_text(f"raise ImportError('no {module} for this test')")
    code, out, err = run(name, *(["--cpu"] if name != "huggingface_kernels_example" else []), PYTHONPATH=str(tmp_path))
    assert (code, out) == (2, "")
    assert f"no {module} for this test" in err and f"pip install {module}" in err and "Traceback" not in err


@pytest.mark.parametrize(
    "name, arguments, said",
    [
        ("benchmark_example", ["--candidate", "x.cu"], "belong together"),
        (
            "benchmark_example",
            ["--candidate", "x:f", "--reference", "y.py", "--shape", "rows=8"],
            "No such file or directory: ",
        ),
        ("benchmark_rmsnorm", ["--source", "x.cu", "--kernel", "y"], "not allowed with"),
        ("benchmark_rmsnorm", ["--shape", "rows=8"], "rows and width"),
        ("benchmark_rmsnorm", ["--shape", "8x8"], "names with numbers"),
        ("benchmark_rmsnorm", ["--against", "nobody"], "--against knows"),
        ("ltx_kernel_injection_example", ["--tokens", "1,2"], "F,H,W"),
        ("ltx_kernel_injection_example", ["--cpu", "--kernel", "nowhere"], "no such folder"),
        ("benchmark_example", ["--rounds", "0"], "--rounds is 1 at least"),
        ("benchmark_example", ["--ulps", "inf"], "no tolerance"),
        ("benchmark_example", ["--of-row", "-1"], "no tolerance"),
        ("benchmark_rmsnorm", ["--rounds", "-1"], "--rounds is 1 at least"),
        ("benchmark_rmsnorm", ["--shape", "rows=8,width=8.5"], "whole numbers"),
        ("benchmark_rmsnorm", ["--shape", "rows=-8,width=8"], "whole numbers"),
        ("ltx_kernel_injection_example", ["--cpu", "--layers", "-1"], "--layers 0"),
        ("ltx_kernel_injection_example", ["--cpu", "--tokens", "0,1,1"], "1 at least"),
        ("ltx_kernel_injection_example", ["--cpu", "--batch", "0"], "1 at least"),
        ("ltx_kernel_injection_example", ["--rounds", "0"], "1 at least"),
        ("transformers_injection_example", ["--cpu", "--layers", "-1"], "--layers and --tokens 0"),
        ("transformers_injection_example", ["--cpu", "--tokens", "-3"], "--layers and --tokens 0"),
        ("transformers_injection_example", ["--rounds", "0"], "1 at least"),
        ("transformers_injection_example", ["--cpu", "--bench"], "needs a card"),
        ("transformers_injection_example", ["--cpu", "--kernel", "nowhere.py"], "nowhere.py"),
        ("huggingface_kernels_example", ["--repo", "a/b"], "--version or --revision"),
        ("huggingface_kernels_example", ["--download"], "belong to --repo"),
    ],
)
def test_wrong_usage(name, arguments, said):
    extra = ["--cpu"] if name == "benchmark_example" else []
    code, out, err = run(name, *arguments, *extra)
    assert (code, out) == (2, "") and said in err and "Traceback" not in err


@pytest.mark.parametrize("name", NAMES)
def test_python_3_9_can_read_it(name):
    ast.parse((SCRIPTS / f"{name}.py").read_text(), feature_version=(3, 9))


def test_what_two_scripts_share_is_the_same():
    """Each script is self-contained, so some functions exist twice; both copies must be equal."""
    found = {}
    for name in NAMES:
        text = (SCRIPTS / f"{name}.py").read_text()
        for node in ast.parse(text).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.setdefault(node.name, {})[name] = ast.get_source_segment(text, node)
    shared = {name: set(where.values()) for name, where in found.items() if len(where) > 1}
    own = {
        "die",
        "main",
        "arguments",
        "show",
        "check",
        "bench",
        "Kernel",
        "Plain",
        "load_kernel",
        "make_model",
        "make_inputs",
        "expected",
        "patch",
    }
    different = {name for name, texts in shared.items() if len(texts) > 1}
    assert different <= own, different - own
    assert {"measure", "copies", "spread", "parse_launcher", "Launcher", "find_nvcc"} <= set(shared) - different
    assert {"times", "distance", "load_module"} <= set(shared) - different


def test_no_script_reaches_for_the_network():
    """No script opens a connection without --download: forked.py refuses all."""
    for name, arguments in (
        ("huggingface_kernels_example", ["--cpu"]),
        ("ltx_kernel_injection_example", ["--cpu", "--smoke"]),
        ("transformers_injection_example", ["--cpu", "--smoke"]),
    ):
        code, out, err = run(name, *arguments, "--json")
        assert code == 0, err
        assert json.loads(out)["verdict"] == "PASS"


TALKS = """
import ctypes, sys
print("from Python")
ctypes.CDLL(None).printf(b"from C\\n")
"""


def test_stdout_is_the_reports_alone(tmp_path):
    """With --json, the output of a candidate or a kernel (printf) goes to stderr."""
    (tmp_path / "op.py").write_text(TALKS + "def reference(x):\n    return x.clone()\n")
    (tmp_path / "norm.py").write_text(
        TALKS + "import torch\ndef rms_norm(x, weight=None, eps=1e-6):\n    x, d = x.float(), x.dtype\n"
        "    n = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)\n"
        "    return (n if weight is None else n * weight.float()).to(d)\n"
    )
    (tmp_path / "swiglu.py").write_text(
        TALKS + "import torch\ndef swiglu(gate, up):\n"
        "    return (torch.nn.functional.silu(gate.float()) * up.float()).to(gate.dtype)\n"
    )
    variant = tmp_path / "build" / "torch-universal"
    variant.mkdir(parents=True)
    (variant / "__init__.py").write_text((tmp_path / "norm.py").read_text())
    (variant / "metadata.json").write_text(
        '{"name": "talks", "id": "_talks_0000000", "version": 1, "license": "Apache-2.0", "python-depends": [], '
        '"backend": {"type": "cuda"}}'
    )
    op = tmp_path / "op.py"
    for name, arguments in (
        ("benchmark_example", ["--candidate", f"{op}:reference", "--reference", op, "--shape", "rows=4,width=8"]),
        ("benchmark_rmsnorm", ["--kernel", tmp_path / "norm.py"]),
        ("huggingface_kernels_example", ["--path", tmp_path, "--check-rms-norm"]),
        ("ltx_kernel_injection_example", ["--smoke", "--layers", 1, "--kernel", tmp_path / "norm.py"]),
        ("transformers_injection_example", ["--smoke", "--layers", 1, "--kernel", tmp_path / "swiglu.py"]),
    ):
        code, out, err = run(name, "--cpu", "--json", *arguments)
        assert code == 0, (name, out, err)
        assert parsed(out)["verdict"] == "PASS" and "from Python" in err and "from C" in err, (name, out, err)


def test_nothing_is_left_behind(tmp_path):
    code, out, err = run("benchmark_example", "--cpu", TMPDIR=str(tmp_path))
    assert code == 0 and list(tmp_path.glob("example-*")) == [], err


def test_who_interrupts_reads_no_traceback(tmp_path):
    (tmp_path / "op.py").write_text(
        "import sys, time\ndef reference(x):\n    print('begun', flush=True)\n    time.sleep(100)\n"
    )
    for name in NAMES:
        assert (SCRIPTS / f"{name}.py").read_text().endswith("    except KeyboardInterrupt:\n        sys.exit(130)\n")
    op = str(tmp_path / "op.py")
    command = [sys.executable, SCRIPTS / "benchmark_example.py", "--cpu", "--candidate", op + ":reference", "--reference", op]

    def as_in_a_terminal():  # background jobs of a shell ignore SIGINT, and the script would inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with subprocess.Popen(
        [*command, "--shape", "rows=4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_in_a_terminal,
    ) as going:
        assert going.stdout.readline() == "begun\n"
        going.send_signal(signal.SIGINT)
        _, err = going.communicate(timeout=60)
    assert going.returncode == 130 and "Traceback" not in err


def test_write_example_needs_no_torch(tmp_path):
    folder = tmp_path / "mine"
    code, out, err = run("benchmark_example", "--write-example", folder, python=BARE)
    assert (code, err) == (0, "") and out.split() == [str(folder / "geglu.cu"), str(folder / "geglu.py")]
    code, _, err = run("benchmark_example", "--write-example", folder, python=BARE)
    assert code == 2 and "is there already" in err
    subprocess.run([sys.executable, "-m", "py_compile", folder / "geglu.py"], check=True)
