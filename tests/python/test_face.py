"""Tests the installed wheel: `python -m unittest discover -s tests/python` with the Python in which it is installed.

Needs neither a GPU nor torch; the tests that need them are in benches/gpu/face.py.
"""

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import stat
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import kernels_harness as harness
from kernels_harness import _native, skills

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(harness.__file__).parent


def ran(*command, **environment):
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


class Package(unittest.TestCase):
    def test_it_is_typed_and_says_all_that_it_gives(self):
        self.assertTrue((PACKAGE / "py.typed").is_file())
        self.assertTrue((PACKAGE / "_native.pyi").is_file())
        for name in harness.__all__:
            self.assertTrue(hasattr(harness, name), name)
        # One file for every Python since 3.9.
        self.assertTrue(_native.__file__.endswith(".abi3.so"), _native.__file__)

    def test_the_stub_names_what_the_module_has(self):
        stub = (PACKAGE / "_native.pyi").read_text()
        for name in dir(_native):
            if not name.startswith("_"):
                self.assertRegex(stub, rf"(?m)^(def|class) {name}\b|^{name}:")
        for kind in (_native.Clock, _native.Project):
            for name in vars(kind):
                if not name.startswith("_"):
                    self.assertRegex(stub, rf"(?m)^    def {name}\(")

    def test_module_and_program_are_of_one_version(self):
        self.assertEqual(harness.VERSION.split()[0], harness.__version__)
        self.assertEqual(importlib.metadata.version("kernels-harness"), harness.__version__)

    def test_importing_it_imports_no_torch(self):
        said = ran(sys.executable, "-c", "import sys, kernels_harness; print('torch' in sys.modules)")
        self.assertEqual(said.stdout.strip(), "False", said.stderr)

    def test_it_takes_no_name_of_the_hubs(self):
        self.assertEqual([path.name for path in PACKAGE.parent.glob("kernels*") if path.name == "kernels"], [])

    def test_every_error_is_one_to_catch(self):
        for kind in (harness.UsageError, harness.RefusedError, harness.GpuError):
            self.assertTrue(issubclass(kind, harness.Error))


class Command(unittest.TestCase):
    def setUp(self):
        self.scripts = pathlib.Path(sysconfig.get_path("scripts"))

    def test_all_three_ways_are_the_program(self):
        for command in (
            [sys.executable, "-m", "kernels_harness"],
            [self.scripts / "kernels"],
            [self.scripts / "kernels-harness"],
            [PACKAGE / "bin" / "kernels"],
        ):
            said = ran(*command, "--version")
            self.assertEqual((said.returncode, said.stdout), (0, f"kernels {harness.VERSION}\n"), said.stderr)

    def test_exit_codes_and_arguments_pass(self):
        self.assertEqual(ran(self.scripts / "kernels", "bench", "--against", "apex").returncode, 2)
        with tempfile.TemporaryDirectory() as folder:
            skill = pathlib.Path(folder, "a b")
            skill.mkdir()
            said = ran(self.scripts / "kernels", "skills", "validate", skill, "--json")
            self.assertEqual(said.returncode, 1)
            self.assertEqual(json.loads(said.stdout)["skills"][0]["path"], str(skill))

    def test_it_starts_itself_again_to_record(self):
        # The error about the missing GPU comes from the recording process, so it was started.
        program = PACKAGE / "bin" / "kernels"
        self.assertTrue(program.stat().st_mode & stat.S_IXUSR)
        request = json.dumps({"record": {"ordinal": 0, "library": "/no/such/library.so", "scratch": tempfile.gettempdir()}})
        said = subprocess.run(
            [sys.executable, "-m", "kernels_harness", "__worker", request],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("Refused", json.loads(said.stdout))

    def test_its_python_is_this_one(self):
        if importlib.util.find_spec("torch"):
            self.skipTest("this Python has torch")
        said = ran(self.scripts / "kernels", "bench", "--against", "torch", KERNELS_PYTHON="", VIRTUAL_ENV="")
        self.assertRegex(said.stderr, rf"{pathlib.Path(sys.executable).parent}/python[0-9.]* has no torch")

    def test_what_only_the_hubs_knows_is_handed_on(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder)
            info = site / "kernels-0.99.dist-info"
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 0.99\n")
            (info / "entry_points.txt").write_text("[console_scripts]\nkernels = hubs_own:main\n")
            (site / "hubs_own.py").write_text("import sys\ndef main():\n    print('the Hub', sys.argv[1:])\n    return 7\n")
            kernels, environment = self.scripts / "kernels", {"PYTHONPATH": folder}
            said = ran(kernels, "download", "x", **environment)
            self.assertEqual((said.returncode, said.stdout), (7, "the Hub ['download', 'x']\n"), said.stderr)
            # What both have, and everything else, is ours; and under its own name nothing is handed on.
            self.assertIn("kernel projects", ran(kernels, "check", "--help", **environment).stdout)
            said = ran(self.scripts / "kernels-harness", "download", **environment)
            self.assertEqual(said.returncode, 2)
        said = ran(self.scripts / "kernels", "download", "x")
        if importlib.util.find_spec("kernels") is None:
            self.assertEqual(said.returncode, 2)
            self.assertIn("unrecognized subcommand 'download'", said.stderr)


class Skills(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.project = self.root / "project"
        (self.project / ".git").mkdir(parents=True)
        (self.root / "home").mkdir()
        before, home = os.getcwd(), os.environ.get("HOME")
        os.chdir(self.project)
        os.environ["HOME"] = str(self.root / "home")
        self.addCleanup(os.chdir, before)
        self.addCleanup(lambda: os.environ.__setitem__("HOME", home) if home is not None else os.environ.pop("HOME"))

    def test_add_status_and_refusal(self):
        planned = skills.add(agents=["claude"], dry_run=True)
        self.assertTrue(planned.dry_run)
        self.assertEqual(list(self.project.glob(".claude*")), [])
        added = skills.add(agents=["claude", "codex"], link=True)
        self.assertEqual([step.action for step in added.steps], ["install", "link"])
        self.assertEqual(added.skill.name, "cuda-kernels")
        found = skills.status()
        self.assertTrue(found.current)
        self.assertEqual({install.state for install in found.installs}, {"current"})
        self.assertEqual(len(skills.status(agents=["claude"]).installs), 1)

        edited = pathlib.Path(added.steps[0].path, "SKILL.md")
        edited.write_text(edited.read_text() + "mine\n")
        found = skills.status("cuda-kernels", agents=["claude"])
        self.assertFalse(found.current)
        self.assertEqual([(change.kind, change.path) for change in found.installs[0].changes], [("edited", "SKILL.md")])
        with self.assertRaises(harness.RefusedError) as refused:
            skills.add(agents=["claude"])
        self.assertEqual(refused.exception.refused[0].changes, ("SKILL.md",))
        self.assertTrue(refused.exception.refused[0].advice)
        # The same words as the command's.
        said = ran(sys.executable, "-m", "kernels_harness", "skills", "add", "--claude", "--json")
        self.assertEqual(said.returncode, 3)
        self.assertEqual(json.loads(said.stdout)["error"], str(refused.exception))
        self.assertIn("mine", edited.read_text())
        replaced = skills.add(agents=["claude"], force=True)
        self.assertIn("mine", pathlib.Path(replaced.steps[0].backup, "SKILL.md").read_text())

    def test_nothing_is_printed(self):
        code = "from kernels_harness import skills; skills.add(agents=['claude'], dest=['there'])"
        said = ran(sys.executable, "-c", code)
        self.assertEqual((said.returncode, said.stdout, said.stderr), (0, "", ""))
        self.assertTrue((self.project / "there/cuda-kernels/SKILL.md").is_file())

    def test_validate(self):
        skill = self.root / "other"
        skill.mkdir()
        (skill / "SKILL.md").write_text("---\nname: Wrong\n---\n")
        skills.add(dest=["good"])
        good, bad = skills.validate("good/cuda-kernels", skill)
        self.assertTrue(good.valid)
        self.assertFalse(bad.valid)
        self.assertTrue(any(finding.line for finding in bad.findings), bad)

    def test_errors_are_the_commands(self):
        for call, kind, words in [
            (lambda: skills.add(), harness.UsageError, "say where to"),
            (lambda: skills.add(agents=["nobody"]), harness.UsageError, "nobody"),
            (lambda: skills.add("/no/such/skill", agents=["claude"]), harness.Error, "/no/such/skill"),
            (lambda: skills.add("--force", agents=["claude"]), harness.Error, "--force"),
            (lambda: skills.status("absent"), harness.Error, "is not installed there"),
            (lambda: skills.validate("/no/such/skill"), harness.Error, "/no/such/skill"),
            (lambda: skills.validate(), harness.UsageError, "PATH"),
        ]:
            with self.assertRaises(kind) as raised:
                call()
            self.assertIn(words, str(raised.exception))
        with self.assertRaises(TypeError):
            skills.add(agents="claude")

    def test_two_threads_do_not_hear_each_other(self):
        import threading

        found = {}

        def one(number):
            for _ in range(20):
                found.setdefault(number, set()).add(skills.add(dest=[f"place-{number}"], dry_run=True).steps[0].path)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, paths in found.items():
            self.assertEqual(paths, {str(self.project / f"place-{number}/cuda-kernels")})


class NoCard(unittest.TestCase):
    def setUp(self):
        try:
            harness.cards()
        except harness.GpuError:
            return
        self.skipTest("this machine has a card")

    def test_the_next_step_is_named(self):
        for call in (harness.Ruler, harness.cards):
            with self.assertRaises(harness.GpuError) as raised:
                call()
            self.assertIn("kernels doctor", str(raised.exception))


class Tensor:
    """A tensor that claims to be on a GPU, for checks before a launch."""

    def __init__(self, shape, strides, code=4, bits=16, device=2, name=b"dltensor"):
        class Raw(ctypes.Structure):
            _fields_ = [
                ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
            ]

        count = ctypes.c_int64 * max(1, len(shape))
        self.shape, self.strides, self.name, self.device = count(*shape), strides and count(*strides), name, device
        address = ctypes.addressof(self.strides) if strides else None
        self.raw = Raw(0x7F0000000000, device, 0, len(shape), code, bits, 1, ctypes.addressof(self.shape), address, 0)

    def __dlpack__(self, stream=None):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.raw), self.name, None)

    def __dlpack_device__(self):
        return self.device, 0


class Projects(unittest.TestCase):
    def setUp(self):
        self.project = harness.Project.open(ROOT / "kernels/rmsnorm")
        self.rms_norm = self.project.operation("rms_norm")

    def missing(self, values=None, **tensors):
        return json.loads(_native.Project(str(ROOT / "kernels/rmsnorm")).fit("rms_norm", tensors, values or {}, 0))

    def test_what_is_in_it(self):
        self.assertEqual((self.project.name, list(self.project.operations)), ("rmsnorm", ["rms_norm", "add_rms_norm"]))
        self.assertEqual([tensor.name for tensor in self.rms_norm.tensors], ["out", "x", "weight"])
        self.assertEqual(self.rms_norm.tensors[2].optional, True)
        self.assertIn("eps", self.rms_norm.values)

    def test_sizes_are_read_off_the_tensors(self):
        out = {"name": "out", "role": "output", "dtype": "bf16", "shape": [8, 256], "strides": [256, 1]}
        for x in (Tensor([8, 256], [256, 1]), Tensor([8, 256], None), Tensor([8, 256], [512, 1])):
            self.assertEqual(self.missing(x=x), [out])
        found = self.missing(x=Tensor([8, 256], None), weight=Tensor([256], [1]), values={"eps": 1e-5})
        self.assertEqual(found, [out])
        self.assertEqual(self.missing(x=Tensor([0, 256], None))[0]["shape"], [0, 256])

    def test_what_does_not_fit_is_named(self):
        x = Tensor([8, 256], None)
        for tensors, values, words in [
            ({}, {}, "no tensor says which of bf16, f16, f32 it is; give x, weight"),
            ({"x": Tensor([8], None)}, {}, "x has the shape [8]"),
            ({"x": Tensor([8, 256], [256, 2])}, {}, "x has the strides [256, 2]"),
            ({"x": Tensor([8, 256], None, code=2, bits=64)}, {}, "64 bits"),
            ({"x": Tensor([8, 256], None, code=0, bits=32)}, {}, "x is i32; it must be one of"),
            ({"x": Tensor([8, 256], None, device=1)}, {}, "x is not on a card"),
            ({"x": x, "weight": Tensor([255], None)}, {}, "and 255 by weight.shape[0]"),
            ({"x": x, "weight": Tensor([256], None, code=2, bits=32)}, {}, "x is bf16 and weight is f32"),
            ({"x": x, "bias": x}, {}, "there is no tensor `bias`"),
            ({"x": x}, {"epsilon": 1.0}, "there is no `epsilon`"),
            ({"x": x}, {"width": 128.0}, "`width` is 128 by the value, and 256 by x.shape[1]"),
        ]:
            with self.assertRaises(harness.Error) as raised:
                self.missing(values, **tensors)
            self.assertIn(words, str(raised.exception))

    def test_calls_that_cannot_be(self):
        for given, words in [
            ({}, "no tensor is given; it takes x, weight"),
            ({"x": "text"}, "x is a str"),
            ({"x": Tensor([8, 256], None, device=1)}, "x is not on a card; move it there with .cuda()"),
        ]:
            with self.assertRaises(harness.Error) as raised:
                self.rms_norm(**given)
            self.assertIn(words, str(raised.exception))
        with self.assertRaises(harness.Error) as raised:
            self.project.operation("layer_norm")
        self.assertIn("there are rms_norm, add_rms_norm", str(raised.exception))
        with self.assertRaises(TypeError):
            _native.Project(str(ROOT / "kernels/rmsnorm")).fit("rms_norm", {"x": Tensor([8, 256], None, name=b"other")}, {}, 0)

    def test_a_folder_that_is_none(self):
        with self.assertRaises(harness.Error) as raised:
            harness.Project.open("/no/such/project")
        self.assertIn("/no/such/project", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
