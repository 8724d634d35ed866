"""What needs neither torch nor a card, and what a script says where they are missing."""

import ast
import json
import re
import subprocess
import sys

import pytest
from support import NAMES, SCRIPTS, load, run

BARE = (sys.executable, "-I", "-S")  # no site-packages: the standard library alone

# Flags are a contract: SKILL.md, the references and agents' scripts name them. One may be added; none goes without a new
# version of the skill.
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
    """Each file stands alone, so some functions stand in two; mended in one, they must be in the other."""
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


def test_no_script_reaches_for_the_network(tmp_path):
    """Whoever opens a connection without --download is caught: sockets are forbidden, and the run is as good."""
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\n"
        "def refuse(*_, **__): raise AssertionError('a connection')\n"
        "socket.socket.connect = refuse\nsocket.getaddrinfo = refuse\n"
    )
    import os

    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    for name, arguments in (
        ("huggingface_kernels_example", ["--cpu"]),
        ("ltx_kernel_injection_example", ["--cpu", "--smoke"]),
        ("transformers_injection_example", ["--cpu", "--smoke"]),
    ):
        code, out, err = run(name, *arguments, "--json", PYTHONPATH=path)
        assert code == 0, err
        assert json.loads(out)["verdict"] == "PASS"


def test_write_example_needs_no_torch(tmp_path):
    folder = tmp_path / "mine"
    code, out, err = run("benchmark_example", "--write-example", folder, python=BARE)
    assert (code, err) == (0, "") and out.split() == [str(folder / "geglu.cu"), str(folder / "geglu.py")]
    code, _, err = run("benchmark_example", "--write-example", folder, python=BARE)
    assert code == 2 and "is there already" in err
    subprocess.run([sys.executable, "-m", "py_compile", folder / "geglu.py"], check=True)
