//! `kernels build --torch` and `kernels toolchain install --torch` with the real nvcc and torch's headers: the built
//! variant loads with the Hub's library, a library that would not load elsewhere is refused, and no user file is lost.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Ran, Test, copy, cuda, executable, exists, script, snapshot, torch, write};
use serde_json::Value;

const VARIANT: &str = "torch-stable-abi211-cu130-x86_64-linux";

/// The project of tests/torch, and a private cache with torch's headers and the objects that all tests share.
pub(crate) struct Project {
    pub(crate) test: Test,
    pub(crate) root: PathBuf,
}

impl Project {
    pub(crate) fn new() -> Self {
        Self::named("scale-by")
    }

    fn named(folder: &str) -> Self {
        let test = Test::without_git();
        let root = test.project.join(folder);
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/project"), &root);
        let project = Self { test, root };
        cuda::share_objects(&project.cache());
        symlink(torch::headers(), project.cache().join("torch-2.11.0")).unwrap();
        project
    }

    /// Without the shared objects.
    fn alone() -> Self {
        let project = Self::new();
        for part in ["objects", "manifests", "work"] {
            fs::remove_file(project.cache().join(part)).unwrap();
        }
        project
    }

    fn cache(&self) -> PathBuf {
        self.test.root().join("cache")
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.root.join(path), text);
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.root.join(path)).unwrap();
        assert!(text.contains(from), "{text}");
        self.write(path, &text.replace(from, to));
    }

    pub(crate) fn command(&self, options: &str) -> Command {
        let mut command = self.test.command();
        command
            .current_dir(&self.root)
            .env("CUDA_HOME", cuda::home())
            .env("KERNELS_CACHE", self.cache())
            .args(["build", "--torch"])
            .args(options.split_whitespace());
        command
    }

    fn build(&self, options: &str) -> Ran {
        Ran::of(&mut self.command(options))
    }

    /// The report of a build that must succeed, for one architecture to save time.
    fn report(&self, options: &str) -> Value {
        let ran = self.build(&format!("--arch 90 --json {options}"));
        assert_eq!(ran.code, 0, "{ran:#?}");
        ran.json()
    }

    fn variant(&self) -> PathBuf {
        self.root.join("build").join(VARIANT)
    }

    /// A build that must fail with exit code 1 and these words, without creating a variant.
    fn refuses(&self, words: &[&str]) {
        self.build("--arch 90").expect(1, words);
        assert!(!exists(self.variant()), "a variant was written");
    }
}

/// Names below a folder.
fn names(folder: &Path) -> Vec<String> {
    snapshot(folder).into_keys().collect()
}

fn compiled(report: &Value) -> (u64, u64) {
    let number = |key: &str| report[key].as_u64().unwrap();
    (number("compiled"), number("cached"))
}

fn id(report: &Value) -> &str {
    report["id"].as_str().unwrap()
}

#[test]
fn a_variant_loads_with_the_hubs_library_in_the_oldest_and_the_newest_torch() {
    const CHECK: &str = r#"
import os, sys
from pathlib import Path
root = Path(sys.argv[1])
os.environ["LOCAL_KERNELS"] = f"me/scale-by={root}"
import torch, kernels, kernel_abi_check
from kernels._rust import Digest, DigestAlgorithm, Metadata
print("torch", torch.__version__)
library = next(root.glob("build/*/*.abi3.so"))
checked = kernel_abi_check.ObjectFile(library)
assert not checked.check_manylinux("manylinux_2_28"), checked.check_manylinux("manylinux_2_28")
assert not checked.check_python_abi("3.9"), checked.check_python_abi("3.9")
metadata = Metadata.read_from_file(library.parent / "metadata.json")
metadata.digest.validate(Digest.hash_variant(DigestAlgorithm.SHA256, library.parent))
assert metadata.id == sys.argv[2] and metadata.name.python_name == "scale_by" and metadata.version == 1
assert metadata.backend.archs == ["7.5", "8.0", "8.9", "9.0", "10.0", "12.0+PTX"], metadata.backend.archs
module = kernels.get_local_kernel(root)
assert sorted(module.__all__) == ["layers", "scale"], module.__all__
assert kernels.get_local_kernel(root / "build") is module
assert kernels.get_kernel("me/scale-by", version=1) is module
ops = getattr(torch.ops, metadata.id)
assert str(ops.scale.default._schema) == f"{metadata.id}::scale(Tensor x, float factor) -> Tensor", ops.scale.default._schema
# The C++ runs: a view in, an error out, with the words of the binding.
x = torch.arange(6.0).view(2, 3)
assert torch.equal(ops.same(x[:, 1:], 2), x[:, 1:])
for call, words in [(lambda: ops.same(x, 3), "x has 2 dimensions, expected 3"), (lambda: module.scale(x, 2.0), "CPU")]:
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
# What the package registered: a shape without a card.
with torch._subclasses.FakeTensorMode():
    assert module.scale(torch.empty(4, 5, device="meta"), 2.0).shape == (4, 5)
print("loaded")
"#;
    let project = Project::new();
    let ran = project.build("--json");
    assert_eq!(ran.code, 0, "{ran:#?}");
    let report = ran.json();
    let (now, cached) = compiled(&report);
    assert_eq!(now + cached, 2);
    let library = format!("{}.abi3.so", id(&report));
    assert_eq!(names(&project.variant()), ["__init__.py", "_ops.py", &library, "layers.py", "metadata.json"]);
    assert_eq!(
        report["libraries"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|name| {
                let name = name.as_str().unwrap();
                name.starts_with("libtorch") || name.starts_with("libcuda")
            })
            .count(),
        3,
        "{report:#}"
    );
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return crate::support::not_run(&why),
    };
    for (mut python, version) in [(torches.oldest(), "torch 2.11."), (torches.newest(), "torch 2.15.")] {
        let ran = Ran::of(python.args(["-c", CHECK]).arg(&project.root).arg(id(&report)));
        ran.expect(0, &[version, "loaded"]);
    }
}

/// The commands read one list of what a header ends with.
#[test]
fn headers_of_every_ending_are_listed_and_built() {
    const HEADERS: [&str; 10] = ["cuh", "h", "hh", "hpp", "hxx", "inl", "inc", "ipp", "tpp", "def"];
    let test = Test::without_git();
    test.ok("init demo --op blank --owner acme --no-git");
    let root = test.project.join("demo");
    let cache = test.root().join("cache");
    cuda::share_objects(&cache);
    symlink(torch::headers(), cache.join("torch-2.11.0")).unwrap();
    let source = root.join("kernel_src/softcap/softcap.cu");
    let mut text = String::new();
    for ending in HEADERS {
        write(&root.join(format!("kernel_src/softcap/own.{ending}")), format!("#define OF_{ending} 1\n"));
        text += &format!("#include \"own.{ending}\"\nstatic_assert(OF_{ending} == 1);\n");
    }
    write(&source, text + &fs::read_to_string(&source).unwrap());
    let run = |typed: &str| {
        let mut command = test.command();
        command.current_dir(&root).env("CUDA_HOME", cuda::home()).env("KERNELS_CACHE", &cache);
        Ran::of(command.args(typed.split(' ')))
    };
    run("check").expect(1, &["sources/unlisted", "own.tpp", "own.def", "own.inc"]);
    run("check --fix").expect(0, &[]);
    run("check --strict").expect(0, &["clean"]);
    run("build --arch 90").expect(0, &[]);
    run("build --torch --arch 90").expect(0, &["built"]);
}

#[test]
fn an_unchanged_project_starts_no_compiler_and_no_python() {
    let project = Project::alone();
    // Wrappers that log each start and run the real program.
    let tools = project.test.root().join("tools");
    let log = tools.join("log");
    let spy = |name: &str, real: &Path| {
        let code = format!(
            "#include <cstdio>\n#include <unistd.h>\nint main(int, char** words) {{\n  if (std::FILE* log = std::fopen(\"{}\", \
             \"a\")) {{ std::fputs(\"{name}\\n\", log); std::fclose(log); }}\n  static char real[] = \"{}\";\n  words[0] = real;\n  return execv(real, words), 9;\n}}\n",
            log.display(),
            real.display()
        );
        let source = tools.join(format!("{name}.cpp"));
        write(&source, code);
        let bin = tools.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let made = Command::new("g++").arg(&source).arg("-o").arg(bin.join(name)).status();
        assert!(made.unwrap().success());
    };
    spy("nvcc", &cuda::home().join("bin/nvcc"));
    spy("g++", Path::new("/usr/bin/g++"));
    spy("python3", Path::new("/usr/bin/python3"));
    for part in ["lib", "include", "nvvm"] {
        symlink(cuda::home().join(part), tools.join(part)).unwrap();
    }
    let build = || {
        let mut command = project.command("--arch 90 --json");
        let path = format!("{}:/usr/bin:/bin", tools.join("bin").display());
        let ran = Ran::of(command.env("CUDA_HOME", &tools).env("PATH", path));
        assert_eq!(ran.code, 0, "{ran:#?}");
        serde_json::from_str::<Value>(&ran.out).unwrap()
    };
    let started = || fs::read_to_string(&log).unwrap_or_default();
    let first = build();
    assert_eq!(first["unchanged"], false);
    assert!(started().contains("nvcc") && started().contains("g++"), "{}", started());
    assert!(!started().contains("python3"), "{}", started());
    fs::write(&log, "").unwrap();
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let clock = Instant::now();
        let again = build();
        assert_eq!((&again["unchanged"], id(&again)), (&Value::Bool(true), id(&first)));
        least = least.min(clock.elapsed().as_secs_f64());
    }
    assert_eq!(started(), "");
    assert!(least < 0.2, "an unchanged build takes {least:.3} s");
}

#[test]
fn the_id_follows_from_what_is_compiled_and_from_the_package() {
    let project = Project::alone();
    let first = project.report("");
    assert_eq!(compiled(&first), (2, 0));
    let bytes = |project: &Project, report: &Value| {
        fs::read(project.variant().join(format!("{}.abi3.so", id(report)))).unwrap()
    };
    // Another folder and cache: the same id and the same bytes.
    let other = Project::named("elsewhere");
    let there = other.report("");
    assert_eq!(id(&there), id(&first));
    assert!(bytes(&other, &there) == bytes(&project, &first), "other bytes");
    // Changed Python: another id, so that both can be loaded; nothing is recompiled.
    project.edit("torch-ext/scale_by/layers.py", "The same", "Just the same");
    let python = project.report("");
    assert_ne!(id(&python), id(&first));
    assert_eq!(compiled(&python), (0, 2));
    assert_eq!(
        names(&project.variant()),
        ["__init__.py", "_ops.py", &format!("{}.abi3.so", id(&python)), "layers.py", "metadata.json"]
    );
    // A changed header: the kernel alone is recompiled.
    project.edit("src/scale.cuh", "* factor", "* (factor + 0.0f)");
    assert_eq!(compiled(&project.report("")), (1, 1));
    // All changes reverted: everything is in the cache.
    project.edit("src/scale.cuh", "* (factor + 0.0f)", "* factor");
    project.edit("torch-ext/scale_by/layers.py", "Just the same", "The same");
    let back = project.report("");
    assert_eq!((id(&back), compiled(&back)), (id(&first), (0, 2)));
    // An added kernel alone is compiled; a header that nothing reads, and one that only a name of the module's is in, nothing.
    project.write(
        "src/second.cu",
        "#include \"names.h\"\nconst char* second_name() { return NAME(TORCH_EXTENSION_NAME); }\n",
    );
    project
        .write("src/names.h", "#define NAME_(name) #name\n#define NAME(name) NAME_(name)  // TORCH_EXTENSION_NAME\n");
    project.edit("build.toml", "\"src/scale.cu\"", "\"src/scale.cu\", \"src/second.cu\"");
    let added = project.report("");
    assert_eq!(compiled(&added), (1, 2), "{added:#}");
    project.edit("torch-ext/scale_by/layers.py", "The same", "Just the same");
    project.write("src/unread.cuh", "#pragma once\n");
    let named = project.report("");
    assert_eq!(compiled(&named), (0, 3));
    assert_ne!(id(&named), id(&added));
    // In code for a card the name cannot be replaced afterwards.
    project.edit("src/second.cu", "const char*", "__device__ char kept[] = NAME(TORCH_EXTENSION_NAME);\nconst char*");
    assert_eq!(compiled(&project.report("")), (1, 2));
    project.edit("torch-ext/scale_by/layers.py", "Just the same", "The same");
    assert_eq!(compiled(&project.report("")), (1, 2));
    fs::remove_file(project.root.join("src/unread.cuh")).unwrap();
    fs::remove_file(project.root.join("src/names.h")).unwrap();
    fs::remove_file(project.root.join("src/second.cu")).unwrap();
    project.edit("build.toml", ", \"src/second.cu\"", "");
    let back = project.report("");
    assert_eq!((id(&back), compiled(&back)), (id(&first), (0, 2)));
    // A change that only affects metadata.json.
    project.edit("build.toml", "version = 1\n", "version = 2\nupstream = \"https://github.com/me/scale\"\n");
    let renamed = project.report("");
    assert_eq!((id(&renamed), &renamed["unchanged"]), (id(&first), &Value::Bool(false)));
    let metadata = fs::read_to_string(project.variant().join("metadata.json")).unwrap();
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["version"], 2);
    assert_eq!(metadata["upstream"], "https://github.com/me/scale");
    assert_eq!(metadata["backend"]["archs"], serde_json::json!(["9.0+PTX"]));
    // A comment in build.toml has no effect.
    project.edit("build.toml", "[torch]", "# The binding.\n[torch]");
    assert_eq!(project.report("")["unchanged"], true);
    // Other architectures give another variant.
    let ran = project.build("--arch 80,90 --json");
    let cards = ran.json();
    assert_ne!(id(&cards), id(&first));
}

#[test]
fn metadata_names_the_commit_that_holds_what_was_compiled() {
    let project = Project::new();
    let git = |arguments: &[&str]| project.test.git(&project.root, arguments);
    // Whether the build wrote anything, and what metadata.json says of the sources.
    let build = || {
        let unchanged = project.report("")["unchanged"] == true;
        let metadata = fs::read_to_string(project.variant().join("metadata.json")).unwrap();
        let metadata: Value = serde_json::from_str(&metadata).unwrap();
        let version = metadata["provenance"]["kernel-builder"]["version"].as_str().unwrap().to_owned();
        assert!(version.starts_with("kernels-harness "), "{version}");
        (unchanged, metadata["provenance"]["kernel"].clone())
    };
    let kernel = |commit: &str, dirty: bool| serde_json::json!({"commit": commit, "dirty": dirty});
    assert_eq!(build(), (false, Value::Null));
    git(&["init", "-q"]);
    assert_eq!(build(), (true, Value::Null), "there is no commit yet, and nothing is lost by it");
    project.write(".gitignore", "build/\nignored.cuh\n");
    git(&["add", "-A", "."]);
    git(&["commit", "-qm", "first"]);
    let first = git(&["rev-parse", "HEAD"]);
    assert_eq!(build(), (false, kernel(&first, false)));
    // Other files and later commits do not make it another build.
    project.write("notes.md", "not compiled");
    assert_eq!(build(), (true, kernel(&first, false)));
    git(&["add", "-A", "."]);
    git(&["commit", "-qm", "notes"]);
    assert_eq!(build(), (true, kernel(&first, false)));
    // What no commit holds: edited, new, and new where git does not look.
    let second = git(&["rev-parse", "HEAD"]);
    project.edit("src/scale.cuh", "#pragma once", "#pragma once  // edited");
    assert_eq!(build(), (false, kernel(&second, true)));
    assert_eq!(build(), (true, kernel(&second, true)));
    git(&["commit", "-qam", "edited"]);
    let third = git(&["rev-parse", "HEAD"]);
    assert_eq!(build(), (false, kernel(&third, false)));
    for path in ["src/new.cuh", "src/ignored.cuh"] {
        project.write(path, "#pragma once\n");
        assert_eq!(build(), (false, kernel(&third, true)), "{path}");
        fs::remove_file(project.root.join(path)).unwrap();
        assert_eq!(build(), (false, kernel(&third, false)), "{path}");
    }
    // A commit that is no longer part of the history is named no more.
    git(&["commit", "-q", "--amend", "-m", "again"]);
    let again = git(&["rev-parse", "HEAD"]);
    assert_eq!(build(), (false, kernel(&again, false)));
}

#[test]
fn capabilities_of_each_kernel_are_kept_and_what_a_project_for_kernel_builder_has_is_understood() {
    let project = Project::new();
    project.write(
        "build.toml",
        r#"[general]
name = "scale-by"
version = 3
edition = 5
license = "MIT"
backends = ["cuda", "cpu"]

[general.cuda]
minver = "12.8"
python-depends = ["nvidia-cutlass-dsl"]
kernel-depends = [{ repo-id = "acme/other", version = 1 }]

[torch]
src = ["torch-ext/torch_binding.cpp"]
include = ["shared"]
cxx-flags = ["-DANSWER=42"]
pyext = ["json"]
stable-abi = { cuda = "2.11" }

[kernel.scale]
backend = "cuda"
depends = ["torch"]
include = ["src"]
cuda-capabilities = ["7.0", "9.0a"]
cuda-flags = ["-DFACTOR=1"]
src = ["src/scale.cu", "src/scale.cuh"]

[kernel.twice]
backend = "cuda"
depends = []
cuda-capabilities = ["9.0"]
cuda-flags = ["-DFACTOR=2", "-O1"]
cxx-flags = ["-DEXTRA"]
src = ["src/twice.cu", "src/extra.cpp", "shared/answer.h"]

[kernel.newer]
backend = "cuda"
depends = []
cuda-minver = "99.0"
src = ["src/newer.cu"]

[kernel.processor]
backend = "cpu"
depends = ["torch"]
src = ["src/extra.cpp"]
"#,
    );
    project.write("shared/answer.h", "#pragma once\nextern \"C\" int extra(int);\n");
    project.write(
        "src/twice.cu",
        "#if FACTOR != 2\n#error FACTOR\n#endif\n__global__ void twice(int* x) { *x *= FACTOR; }\n",
    );
    project.write(
        "src/extra.cpp",
        "#ifndef EXTRA\n#error EXTRA\n#endif\nextern \"C\" int extra(int x) { return x + 1; }\n",
    );
    project.write("src/newer.cu", "#error too new\n");
    project.write("torch-ext/scale_by/tuning.json", "{}\n");
    project.write("torch-ext/scale_by/notes.txt", "not published\n");
    project.write("torch-ext/scale_by/_ops.py", "raise RuntimeError('of another build')\n");
    project.edit(
        "torch-ext/torch_binding.cpp",
        "#include \"registration.h\"",
        "#include \"answer.h\"\n#include \"registration.h\"\nstatic_assert(ANSWER == 42);",
    );
    project.edit("torch-ext/torch_binding.cpp", "  return x;", "  return extra(1) == 2 ? x : Tensor();");
    let ran = project.build("--json");
    assert_eq!(ran.code, 0, "{ran:#?}");
    let report = ran.json();
    let (now, cached) = compiled(&report);
    assert_eq!(now + cached, 4);
    assert_eq!(report["archs"], serde_json::json!(["9.0+PTX", "9.0a"]));
    let note = report["notes"][0].as_str().unwrap();
    assert!(note.contains("[kernel.newer]") && note.contains("99.0"), "{note}");
    let files = names(&project.variant());
    assert!(files.contains(&"tuning.json".to_owned()), "{files:?}");
    assert!(!files.contains(&"notes.txt".to_owned()), "{files:?}");
    let ops = fs::read_to_string(project.variant().join("_ops.py")).unwrap();
    assert!(ops.contains(id(&report)) && !ops.contains("another build"), "{ops}");
    let metadata = fs::read_to_string(project.variant().join("metadata.json")).unwrap();
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["python-depends"], serde_json::json!(["nvidia-cutlass-dsl"]));
    assert_eq!(metadata["kernel-depends"], serde_json::json!([{"repo-id": "acme/other", "version": 1}]));
    assert_eq!(metadata["kernels-minver"], "0.17.0");
    // The first kernel has no code for 8.0.
    project.build("--arch 80").expect(1, &["--arch 80", "[kernel.scale]", "9.0a"]);
}

#[test]
fn a_build_toml_that_cannot_be_built_here_says_what_to_do() {
    let project = Project::new();
    let whole = fs::read_to_string(project.root.join("build.toml")).unwrap();
    let torch = "[torch]\nsrc = [\"torch-ext/torch_binding.cpp\"]\nstable-abi = \"2.11\"\n";
    assert!(whole.contains(torch));
    for (from, to, words) in [
        (torch, "", vec!["no [torch]", "stable-abi = \"2.11\""]),
        (torch, "[tvm-ffi]\nsrc = []\n", vec!["[tvm-ffi]", "kernel-builder"]),
        (torch, "[torch-noarch]\n", vec!["[torch-noarch]", "kernel-builder"]),
        ("[torch]\n", "[tvm-ffi]\nsrc = []\n\n[torch]\n", vec!["both [torch] and [tvm-ffi]", "remove one"]),
        ("stable-abi = \"2.11\"\n", "", vec!["no stable-abi", "kernel-builder"]),
        ("\"2.11\"", "{ xpu = \"2.11\" }", vec!["no stable-abi for cuda"]),
        ("\"2.11\"", "\"2.9\"", vec!["2.9 is older than 2.10".split(' ').next().unwrap(), "2.10"]),
        ("src = [\"torch-ext/torch_binding.cpp\"]", "src = []", vec!["no C++ file"]),
        (
            "src = [\"torch-ext/torch_binding.cpp\"]",
            "src = [\"torch-ext/torch_binding.cpp\", \"src/scale.cu\"]",
            vec!["[torch] src has src/scale.cu", "[kernel.X]"],
        ),
        ("version = 1\n", "", vec!["no `version`", "version = 1"]),
        ("license = \"Apache-2.0\"\n", "", vec!["no `license`"]),
        ("depends = [\"torch\"]", "depends = [\"cutlass_4_0\"]", vec!["cutlass_4_0", "[kernel.scale]", "include"]),
        (
            "depends = [\"torch\"]",
            "depends = []\ncuda-flags = [\"-arch=sm_90\"]",
            vec!["-arch=sm_90", "cuda-capabilities"],
        ),
        (
            "depends = [\"torch\"]",
            "depends = []\ncuda-capabilities = [\"7.0\"]",
            vec!["--arch 90", "cuda-capabilities are 7.0"],
        ),
        (
            "backends = [\"cuda\"]",
            "backends = [\"cuda\"]\n[general.cuda]\nmaxver = \"12.9\"",
            vec!["maxver is 12.9", "13.0.88"],
        ),
        ("stable-abi", "maxver = \"2.10\"\nstable-abi", vec!["maxver requires torch <= 2.10", "found torch 2.11.0"]),
        ("\"2.11\"", "\"2.12\"", vec!["torch 2.11.0", "older than the 2.12"]),
        ("src = [\"src/scale.cu\"", "src = [\"src/gone.cu\"", vec!["src/gone.cu", "cannot be found"]),
    ] {
        assert!(whole.contains(from), "{from}");
        project.write("build.toml", &whole.replacen(from, to, 1));
        project.refuses(&words);
    }
    project.write("build.toml", &whole);
    fs::rename(project.root.join("torch-ext/scale_by"), project.root.join("torch-ext/scaleby")).unwrap();
    project.refuses(&["torch-ext/scale_by/__init__.py", "from ._ops import ops"]);
    // Without --torch, its options are a usage error, and kernel.toml is required.
    let plain = |typed: &str| Ran::of(project.command("").args(typed.split_whitespace()));
    plain("--arch 42").expect(2, &["--arch 42"]);
    let mut command = project.test.command();
    Ran::of(command.current_dir(&project.root).args(["build", "--out", "x"])).expect(2, &["--torch"]);
}

#[test]
fn torch_is_found_without_starting_python_and_what_will_not_do_is_named() {
    let project = Project::new();
    fs::remove_file(project.cache().join("torch-2.11.0")).unwrap();
    project.refuses(&["no torch headers", "kernels toolchain install --torch", "--python"]);
    // Environments: one whose torch is too old, one without CUDA, one that is suitable.
    let environment = |name: &str| {
        let root = project.test.root().join(name);
        let packages = root.join("lib/python3.12/site-packages");
        fs::create_dir_all(&packages).unwrap();
        write(&root.join("pyvenv.cfg"), "home = /usr/bin\n");
        fs::create_dir(root.join("bin")).unwrap();
        symlink("/usr/bin/python3", root.join("bin/python3")).unwrap();
        (root, packages.join("torch"))
    };
    let (good, package) = environment("good");
    symlink(torch::headers().join("torch"), package).unwrap();
    let (old, package) = environment("old");
    write(&package.join("version.py"), "__version__ = '2.7.1+cu126'\ncuda: Optional[str] = '12.6'\n");
    let (processor, package) = environment("processor");
    write(&package.join("version.py"), "__version__ = '2.12.0+cpu'\ncuda: Optional[str] = None\n");
    write(&package.join("include/torch/csrc/stable/library.h"), "");
    let with = |environment: &Path| {
        let mut command = project.command("--arch 90 --json");
        command.env("VIRTUAL_ENV", environment);
        Ran::of(&mut command)
    };
    with(&old).expect(1, &["2.7.1", "stable", "kernels toolchain install --torch"]);
    with(&processor).expect(1, &["2.12.0+cpu", "without CUDA"]);
    with(&good).expect(0, &["VIRTUAL_ENV", "2.11.0+cu130"]);
    let python = |path: &Path| {
        // A complete variant would be kept without looking for torch.
        let _ = fs::remove_dir_all(project.variant());
        Ran::of(project.command("--arch 90 --python").arg(path))
    };
    python(&good.join("bin/python3")).expect(0, &["--python"]);
    python(&old.join("bin/python3")).expect(1, &["2.7.1"]);
    python(Path::new("/no/such/python")).expect(1, &["/no/such/python", "--python"]);
    // A Python that must be run to find its torch, as with pyenv.
    let shim = project.test.root().join("shim");
    script(&shim, format!("echo {}/lib/python3.12/site-packages/torch/__init__.py", good.display()));
    python(&shim).expect(0, &["2.11.0+cu130"]);
    // `kernels toolchain` shows it.
    let mut command = project.test.command();
    command.env("CUDA_HOME", cuda::home()).env("VIRTUAL_ENV", &good).arg("toolchain");
    Ran::of(&mut command).expect(0, &["torch  2.11.0+cu130  VIRTUAL_ENV"]);
}

#[test]
fn what_would_not_load_elsewhere_is_refused_by_name() {
    let project = Project::new();
    let whole = fs::read_to_string(project.root.join("torch-ext/torch_binding.cpp")).unwrap();
    let check = "STD_TORCH_CHECK(x.dim() == rank";
    let with = |declared: &str, call: &str| {
        let text = whole
            .replace("namespace {", &format!("{declared}\nnamespace {{"))
            .replace(check, &format!("{call};\n  {check}"));
        project.write("torch-ext/torch_binding.cpp", &text);
    };
    with("extern \"C\" int gettid();", "if (gettid() == 0) return x");
    project.refuses(&["gettid needs GLIBC_2.30", "manylinux_2_28"]);
    with("extern \"C\" int _PyLong_Sign(void*);", "if (_PyLong_Sign(nullptr)) return x");
    project.refuses(&["_PyLong_Sign", "stable ABI as of 3.9"]);
    with("extern \"C\" int PyType_GetName(void*);", "if (PyType_GetName(nullptr)) return x");
    project.refuses(&["PyType_GetName", "stable ABI as of 3.9"]);
    with("namespace c10 { int count(); }", "if (c10::count()) return x");
    project.refuses(&["c10::count()", "torch/csrc/stable"]);
    with("int scale_lunch(int);", "if (scale_lunch(1)) return x");
    project.refuses(&["scale_lunch(int)", "defined nowhere", "[kernel.X]"]);
    project.write("torch-ext/torch_binding.cpp", &whole.replace("\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)", ""));
    project.refuses(&["PyInit__scale_by_cuda_", "REGISTER_EXTENSION"]);
    // Newer versions of the same libm functions are replaced by versions of old systems.
    with(
        "#include <cmath>\n#include <string>\n#include <vector>\n#include <iostream>",
        "{ std::vector<double> all(rank, std::log2(double(rank)) + std::pow(2.5, double(rank)) + std::exp(double(rank)));\n\
         for (double one : all) std::cerr << (one < -1 ? std::to_string(std::stol(\"12\") + one) : std::string()); }",
    );
    let report = project.report("");
    let compat = report["compat"].to_string();
    assert!(compat.contains("log2") || cfg!(target_env = "musl"), "{compat}");
    if let Ok(torches) = torch::torches() {
        const CHECK: &str = "import sys, pathlib, kernel_abi_check as k\n\
            o = k.ObjectFile(next(pathlib.Path(sys.argv[1]).glob('*.so')))\n\
            bad = [*o.check_manylinux('manylinux_2_28'), *o.check_python_abi('3.9')]\nassert not bad, bad\nprint('clean')";
        let mut python = torches.newest();
        Ran::of(python.args(["-c", CHECK]).arg(project.variant())).expect(0, &["clean"]);
    }
}

#[test]
fn compilers_errors_and_warnings_are_shown_with_the_persons_paths() {
    let project = Project::alone();
    project.edit("src/scale.cuh", "out[i] =", "out[j] =");
    project.refuses(&["src/scale.cu does not compile", "src/scale.cuh(6)", "\"j\" is undefined"]);
    project.edit("src/scale.cuh", "out[j] =", "out[i] =");
    project.edit("torch-ext/torch_binding.cpp", "x.dim() == rank", "x.dimensions() == rank");
    project.refuses(&["torch-ext/torch_binding.cpp does not compile", "dimensions"]);
    project.edit("torch-ext/torch_binding.cpp", "x.dimensions() == rank", "x.dim() == rank");
    project.edit("src/scale.cu", "if (n == 0)", "int unused = 1;\n  if (n == 0)");
    let ran = project.build("--arch 90");
    ran.expect(0, &["built", "unused"]);
    // A header that is not part of the id.
    let project = Project::new();
    project.write("other/hidden.h", "#define HIDDEN 1\n");
    project.edit("src/scale.cu", "#include \"scale.cuh\"", "#include \"scale.cuh\"\n#include \"../other/hidden.h\"");
    project.refuses(&[
        "src/scale.cu does not compile",
        "other/hidden.h",
        "the folders of the sources and in `include`",
    ]);
    // Nor a header from elsewhere, by an option or by its path.
    let elsewhere = project.test.root().join("elsewhere");
    write(&elsewhere.join("far.h"), "#define FAR 1\n");
    project.edit("src/scale.cu", "\"../other/hidden.h\"", "<far.h>");
    let flags = format!("depends = [\"torch\"]\ncuda-flags = [\"-I{}\"]", elsewhere.display());
    project.edit("build.toml", "depends = [\"torch\"]", &flags);
    project.refuses(&["cuda-flags: -I", "elsewhere cannot be set by a project"]);
    project.edit("build.toml", &flags, "depends = [\"torch\"]");
    project.edit("src/scale.cu", "<far.h>", "\"../../../elsewhere/far.h\"");
    project.refuses(&["src/scale.cu does not compile", "elsewhere/far.h: Permission denied"]);
    // Nor a secret through a link that has a header's name.
    write(&elsewhere.join("id_rsa"), "#define FAR 3\n");
    symlink(elsewhere.join("id_rsa"), project.root.join("src/secret.h")).unwrap();
    project.edit("src/scale.cu", "../../../elsewhere/far.h", "secret.h");
    project.refuses(&["src/scale.cu does not compile", "secret.h"]);
    fs::remove_file(project.root.join("src/secret.h")).unwrap();
    project.edit("src/scale.cu", "\"secret.h\"", "\"../../../elsewhere/far.h\"");
    // A link to it inside the project counts as part of the project.
    symlink(elsewhere.join("far.h"), project.root.join("src/far.h")).unwrap();
    project.edit("src/scale.cu", "../../../elsewhere/far.h", "far.h");
    let linked = project.report("");
    write(&elsewhere.join("far.h"), "#define FAR 2\n");
    assert_ne!(id(&project.report("")), id(&linked));
}

/// The module's name covers files, and neither folders nor links to them.
#[test]
fn no_folder_and_no_link_to_one_chooses_what_a_variant_holds() {
    let project = Project::new();
    for version in ["1", "2"] {
        project.write(&format!("src/v{version}/eps.h"), &format!("#define EPS {version}.0f\n"));
        project.write(&format!("src/v{version}/d/more.h"), "");
    }
    symlink("v1/d", project.root.join("src/cur")).unwrap();
    let before = "#include \"scale.cuh\"";
    for (line, words) in [
        ("#include \"cur/../eps.h\"", ["src/cur/../eps.h was read", "write the name without"]),
        ("#include \"cur/more.h\"", ["src/cur/more.h", "which is in no folder of the project"]),
        ("#if __has_include(\"docs/../scale.cuh\")\n#endif", ["docs/../scale.cuh", "written out"]),
        ("#if __has_include(\"cur/more.h\")\n#endif", ["asks for cur/more.h", "a link to a folder"]),
    ] {
        project.edit("src/scale.cu", before, &format!("{before}\n{line}"));
        project.refuses(&words);
        project.edit("src/scale.cu", &format!("{before}\n{line}"), before);
    }
}

#[test]
fn what_this_program_did_not_write_is_never_deleted() {
    let project = Project::new();
    let first = project.report("");
    // Python's cache files are ignored, and other variants stay.
    write(&project.variant().join("__pycache__/layers.cpython-312.pyc"), "bytecode");
    write(&project.root.join("build/notes.txt"), "mine");
    let neighbour = project.root.join("build/torch29-cxx11-cu128-x86_64-linux/__init__.py");
    write(&neighbour, "theirs");
    assert_eq!(project.report("")["unchanged"], true);
    // A deleted file is restored.
    fs::remove_file(project.variant().join("layers.py")).unwrap();
    assert_eq!(project.report("")["unchanged"], false);
    assert!(project.variant().join("layers.py").is_file());
    // An edit or an added file: the build is refused, and nothing changes.
    let ours = fs::read(project.variant().join("layers.py")).unwrap();
    let foreign = [("layers.py", "layers.py (edited)"), ("extra/mine.py", "extra/mine.py (added)")];
    for (path, what) in foreign {
        write(&project.variant().join("layers.py"), &ours);
        write(&project.variant().join(path), "mine");
        let before = snapshot(project.root.join("build"));
        let ran = project.build("--arch 90 --json");
        ran.expect(3, &[what, "--force", "--out"]);
        assert_eq!(snapshot(project.root.join("build")), before);
        let report = ran.json();
        assert_eq!(report["exit_code"], 3);
    }
    // With force the old variant is kept as a backup.
    write(&project.variant().join("layers.py"), "mine");
    let forced = project.report("--force");
    assert_eq!(id(&forced), id(&first));
    let backup = PathBuf::from(forced["backup"].as_str().unwrap());
    for (path, _) in foreign {
        assert_eq!(fs::read_to_string(backup.join(path)).unwrap(), "mine");
    }
    assert!(!project.variant().join("extra").exists());
    assert_eq!(fs::read_to_string(&neighbour).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(project.root.join("build/notes.txt")).unwrap(), "mine");
    // A variant from kernel-builder has no digest.
    fs::remove_dir_all(project.variant()).unwrap();
    write(&project.variant().join("metadata.json"), "{\"id\": \"_scale_by_cuda_abc\"}");
    project.build("--arch 90").expect(3, &["metadata.json", "another program's"]);
    fs::remove_dir_all(project.variant()).unwrap();
    let elsewhere = project.test.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, project.variant()).unwrap();
    project.build("--arch 90").expect(3, &["is a link"]);
    // Another folder.
    let out = project.test.root().join("out/deep");
    project.report(&format!("--out {}", out.display()));
    assert!(out.join(VARIANT).join("metadata.json").is_file());
    assert_eq!(names(&out).iter().filter(|name| name.starts_with('.')).count(), 0);
}

#[test]
fn builds_that_are_killed_race_or_run_out_of_room_leave_the_old_variant_or_a_whole_new_one() {
    let project = Project::alone();
    let first = project.report("");
    let whole = snapshot(project.variant());
    project.edit("src/scale.cuh", "* factor", "* (factor + 0.0f)");
    for milliseconds in [5, 40, 150, 600, 1500, 2500] {
        let mut child = project.command("--arch 90").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(milliseconds));
        let _ = child.kill();
        child.wait().unwrap();
        let now = snapshot(project.variant());
        let library = format!("{}.abi3.so", id(&first));
        assert!(now == whole || !now.contains_key(&library), "a half variant: {:?}", now.keys());
    }
    // Compiled objects: three builds race to replace the variant.
    project.report("");
    project.edit("torch-ext/scale_by/layers.py", "The same", "Quite the same");
    let children: Vec<_> = (0..3)
        .map(|_| {
            let mut command = project.command("--arch 90");
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let second = project.report("");
    assert_eq!(second["unchanged"], true);
    assert_ne!(id(&second), id(&first));
    let left: Vec<_> = names(&project.root.join("build")).into_iter().filter(|name| name.starts_with('.')).collect();
    assert_eq!(left, [""; 0]);
    // No file can grow beyond 8 KiB, so the build fails; the existing variant must not change.
    project.edit("torch-ext/scale_by/layers.py", "Quite the same", "Nearly the same");
    project.edit("src/scale.cuh", " + 0.0f", " + 1.0f");
    let before = snapshot(project.variant());
    let limited = |command: &Command| {
        let mut shell = Command::new("bash");
        shell
            .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""])
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(&project.root)
            .env_clear();
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        Ran::of(&mut shell)
    };
    let ran = limited(&project.command("--arch 90"));
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert_eq!(snapshot(project.variant()), before);
}

/// A wheel with the parts of torch that are kept, and others.
fn wheel(folder: &Path, libraries: &[&str]) -> PathBuf {
    use zip::write::SimpleFileOptions;
    let path = folder.join("torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl");
    let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    let mut add = |name: &str, bytes: &[u8]| {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    };
    add("torch/__init__.py", b"raise RuntimeError");
    add("torch/version.py", b"__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n");
    add("torch/include/torch/csrc/stable/library.h", b"#pragma once\n");
    add("torch-2.11.0.dist-info/licenses/LICENSE", b"BSD");
    add("torch/lib/libtorch_python.so", b"large");
    for library in libraries {
        let source = folder.join("library.cpp");
        fs::write(
            &source,
            "extern \"C\" int of_c(int x) { return x; }\nextern int datum;\nint datum = 3;\nnamespace ns { void call(int) {} }\n\
             template <class T> T twice(T x) { return x + x; }\ntemplate int twice<int>(int);\n",
        )
        .unwrap();
        let made = folder.join(library);
        let status = Command::new("g++").args(["-shared", "-fPIC", "-o"]).arg(&made).arg(&source).status();
        assert!(status.unwrap().success());
        add(&format!("torch/lib/{library}"), &fs::read(made).unwrap());
    }
    archive.finish().unwrap();
    path
}

#[test]
fn the_headers_of_torch_come_through_pip_with_stand_ins_for_its_libraries() {
    const ALL: [&str; 5] = ["libc10.so", "libtorch.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_cuda.so"];
    let test = Test::without_git();
    let cache = test.home.join(".cache/kernels");
    let python = test.root().join("python");
    let pip = |body: &str| {
        let text = format!(
            "#!/bin/sh\n[ \"$3\" = --version ] && exit 0\n[ \"$1 $2 $3\" = '-m pip download' ] || exit 9\n\
             for word; do [ \"$before\" = --dest ] && dest=$word; before=$word; done\nmkdir -p \"$dest\"\n\
             grep -q '^torch==2.11.0' \"$before\" && grep -q -- --hash=sha256: \"$before\" || exit 9\n{body}\n"
        );
        executable(&python, text);
    };
    let install = |more: &[&str]| {
        let mut command = test.command();
        command.args(["toolchain", "install", "--torch", "--python"]).arg(&python).args(more);
        Ran::of(&mut command)
    };
    let left = || names(&cache).into_iter().filter(|name| name != "toolchain.lock").collect::<Vec<_>>();
    pip("echo no network >&2; exit 1");
    install(&[]).expect(1, &["no network", "kernels toolchain install --torch"]);
    pip("true");
    install(&[]).expect(1, &["pip fetched no wheel"]);
    pip("echo torn > \"$dest/torch.whl\"");
    install(&[]).expect(1, &["cannot unpack"]);
    let half = wheel(&test.root(), &ALL[..4]);
    pip(&format!("cp {} \"$dest\"", half.display()));
    install(&[]).expect(1, &["libtorch_cuda.so"]);
    assert_eq!(left(), [""; 0]);
    let whole = wheel(&test.root(), &ALL);
    pip(&format!("cp {} \"$dest\"", whole.display()));
    install(&[]).expect(0, &["installed", "torch 2.11.0+cu130"]);
    pip("exit 1");
    install(&[]).expect(0, &["already there"]);
    let torch = cache.join("torch-2.11.0/torch");
    assert!(torch.join("include/torch/csrc/stable/library.h").is_file());
    assert!(!torch.join("__init__.py").exists());
    assert!(!torch.join("lib/libtorch_python.so").exists());
    let listed = |path: &Path| {
        let output = Command::new("nm").args(["-D", "--defined-only"]).arg(path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut symbols: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().skip(2).collect())
            .filter(|name: &String| {
                name.contains("of_c") || name.contains("datum") || name.contains("call") || name.contains("twice")
            })
            .collect();
        symbols.sort();
        symbols
    };
    for library in ALL {
        let (real, stand_in) = (test.root().join(library), torch.join("lib").join(library));
        assert_eq!(listed(&stand_in), listed(&real));
        assert_eq!(listed(&stand_in).len(), 4, "{:?}", listed(&stand_in));
    }
    // `--force` fetches it again; after a failure the old one remains.
    install(&["--force"]).expect(1, &["pip"]);
    assert!(torch.join("lib/libc10.so").is_file());
}

/// Every digest of its files is right, and source-digest is the project's: nothing in the folder says that it was not built.
#[test]
fn a_variant_that_this_machine_did_not_link_is_linked_anew() {
    let project = Project::new();
    let report = project.report("");
    assert_eq!(project.report("")["unchanged"], true);
    let library = project.variant().join(format!("{}.abi3.so", id(&report)));
    let honest = snapshot(project.variant());
    // Another library under the digests of metadata.json, as somebody may commit it.
    let forge = || {
        let mut bytes = fs::read(&library).unwrap();
        let old = sha256_base64(&bytes);
        bytes.extend_from_slice(b"forged");
        fs::write(&library, &bytes).unwrap();
        let metadata = project.variant().join("metadata.json");
        let text = fs::read_to_string(&metadata).unwrap();
        assert!(text.contains(&old), "{text}");
        fs::write(&metadata, text.replace(&old, &sha256_base64(&bytes))).unwrap();
    };
    forge();
    let mended = project.report("");
    assert_eq!((&mended["unchanged"], compiled(&mended)), (&Value::Bool(false), (0, 2)), "{mended:#}");
    assert_eq!(snapshot(project.variant()), honest);
    assert_eq!(project.report("")["unchanged"], true);
    // Without the cache that has linked it, what is there is not believed either; nobody's file is lost by that.
    for part in ["objects", "manifests", "work"] {
        fs::remove_file(project.cache().join(part)).unwrap();
    }
    let again = project.report("");
    assert_eq!((&again["unchanged"], compiled(&again)), (&Value::Bool(false), (2, 0)), "{again:#}");
    assert_eq!(snapshot(project.variant()), honest);
    assert_eq!(project.report("")["unchanged"], true);
}

fn sha256_base64(bytes: &[u8]) -> String {
    let mut child = Command::new("python3")
        .args(["-c", "import base64, hashlib, sys\nprint(base64.b64encode(hashlib.sha256(sys.stdin.buffer.read()).digest()).decode())"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}
