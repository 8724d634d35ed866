//! What the Hub's own library says of variants: `kernels publish` shows nothing that it does not load, and `kernels hub
//! variants` judges as it does.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::hub::{Demo, Server, VARIANTS};
use crate::support::torch::{self, Torches};
use crate::support::{Ran, not_run, write};

/// The torches of the tests, or a word that this was not run.
fn torches() -> Option<Torches> {
    torch::torches().map_err(|why| not_run(&why)).ok()
}

fn publish(server: &Server, demo: &Demo, python: Option<&str>) -> Command {
    let mut command = demo.command(server, "publish --unproved --json");
    command.env("CUDA_VISIBLE_DEVICES", "").env("OMP_NUM_THREADS", "1");
    command.args(python.map(|python| format!("--python={python}")));
    command
}

#[test]
fn what_the_library_does_not_load_is_never_seen_on_the_hub() {
    let Some(torches) = torches() else { return };
    let python = torches.newest().get_program().to_str().unwrap().to_owned();
    let (server, demo) = (Server::new(), Demo::of(&VARIANTS[..1]));
    let run = || Ran::of(&mut publish(&server, &demo, Some(&python)));
    let branches = || server.state()["repos"]["acme/demo"]["branches"].clone();
    // An `__all__` with a name that the module does not have: neither a first version nor a change is seen.
    demo.variant(VARIANTS[0], "\"scale\", \"gone\"");
    run().expect(1, &["does not load", "can be seen on v1", "does not have: gone", "publish again"]);
    assert_eq!(branches().as_object().unwrap().keys().collect::<Vec<_>>(), ["main"]);
    demo.variant(VARIANTS[0], "\"scale\"");
    let report: Value = serde_json::from_str(&run().out).unwrap();
    let loaded = &report["loaded"];
    assert_eq!((&loaded["variant"], &loaded["names"]), (&json!(VARIANTS[0]), &json!(["scale"])), "{report:#}");
    assert_eq!(loaded["library"], "0.17.2");
    let before = branches();
    // A kernel that ends its process, after it tried what a kernel has no need of and what would pass for success.
    let code = "import os, socket, sys\nprint('loaded-', os.environ.get('HF_TOKEN'), flush=True)\ntry:\n    \
                socket.create_connection(('127.0.0.1', 1))\nexcept PermissionError:\n    print('held', flush=True)\nos._exit(0)\n";
    demo.variant_of(VARIANTS[0], code);
    let ran = run();
    ran.expect(1, &["does not load", "Python ended with 0", "loaded- None", "held"]);
    assert_eq!(branches(), before);
    assert_eq!(server.state()["half"], json!([]));
    // What is proposed is loaded before anybody can look at it.
    let propose = || Ran::of(publish(&server, &demo, Some(&python)).arg("--create-pr"));
    propose().expect(1, &["does not load", "Python ended with 0", "loaded- None", "held"]);
    assert_eq!(server.state()["repos"]["acme/demo"]["pulls"], json!({}));
    demo.variant_of(VARIANTS[0], "__all__ = [\"scale\"]\n\n\ndef scale(x):\n    return 3 * x\n");
    let report: Value = serde_json::from_str(&propose().out).unwrap();
    assert_eq!(
        (&report["status"], &report["loaded"]["variant"]),
        (&json!("pull_request_created"), &json!(VARIANTS[0]))
    );
    assert_eq!(branches(), before);
    // What is the same is not loaded again, and it says so; a Python without the library is said before anything is asked.
    demo.variant(VARIANTS[0], "\"scale\"");
    let report: Value = serde_json::from_str(&run().out).unwrap();
    assert_eq!((&report["status"], &report["loaded"]["variant"]), (&json!("no_changes"), &Value::Null));
    let asked = server.state()["log"].as_array().unwrap().len();
    Ran::of(&mut publish(&server, &demo, Some("/usr/bin/python3")))
        .expect(1, &["--python", "/usr/bin/python3", "no torch"]);
    assert_eq!(server.state()["log"].as_array().unwrap().len(), asked);
    demo.variant(VARIANTS[0], "\"scale\", \"more\"");
    let report: Value = serde_json::from_str(&Ran::ok(&mut publish(&server, &demo, None)).out).unwrap();
    assert!(report["loaded"]["why"].as_str().unwrap().contains("no torch"), "{report:#}");
    demo.variant(VARIANTS[0], "\"scale\"");
    demo.run(&server, "publish --unproved")
        .expect(0, &["warning not loaded through get_kernel", "python3 has no torch"]);
}

/// Prints what the library accepts of some variants on some systems, the preferred ones first.
const RESOLVE: &str = r#"
import json, sys
from packaging.version import Version
from kernels import backends, variants
names, systems = json.loads(sys.argv[1])
answers = []
parsed = []
for name in names:
    try:
        parsed.append(variants.parse_variant(name))
    except ValueError:
        pass
for torch, cuda, python in systems:
    variants._is_unsupported_free_threaded_build = lambda: python == "python3.14t"
    backend = backends.CUDA(version=Version(cuda)) if cuda else backends.CPU()
    accepted, _ = variants._resolve_variant_for_system(parsed, backend, "x86_64", "linux", Version(torch), True, None)
    answers.append([variant.variant_str for variant in accepted])
print(json.dumps(answers))
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn variants_are_chosen_and_ordered_as_the_library_does() {
    let Some(torches) = torches() else { return };
    let mut names: Vec<String> = Vec::new();
    for framework in
        ["-stable-abi29", "-stable-abi211", "-stable-abi212", "29", "211-cxx11", "212-cxx11", "212-cxx98", "212"]
    {
        for backend in ["cu118", "cu124", "cu126", "cu130", "cu132", "cpu", "rocm71", "xpu20252"] {
            names.push(format!("torch{framework}-{backend}-x86_64-linux"));
        }
    }
    names.push("torch-stable-abi211-cu130-aarch64-linux".to_owned());
    names.push("torch212-cxx11-cu130-x86_64-windows".to_owned());
    names.extend(["torch-cuda", "torch-cpu", "torch-universal", "torch-rocm", "torch-npu"].map(str::to_owned));
    names.extend(
        ["torch-stable-abi-cu130-x86_64-linux", "notes", "torch211-cu130", "tvm-ffi01-cu130-x86_64-linux"]
            .map(str::to_owned),
    );
    let systems = [
        ("2.9", "12.8", "python3.9"),
        ("2.11", "13.0", "python3.12"),
        ("2.12", "12.6", "python3.12"),
        ("2.12", "13.2", "python3.14"),
        ("2.12", "13.2", "python3.14t"),
        ("2.12", "13.2", "python3.15t"),
        ("2.15", "14.0", "python3.12"),
        ("2.12", "", "python3.12"),
    ];
    let asked = json!([names, systems]).to_string();
    let theirs = Ran::ok(torches.newest().args(["-c", RESOLVE, &asked]));
    let theirs: Vec<Vec<String>> = serde_json::from_str(theirs.out.trim()).unwrap();
    let (server, demo) = (Server::new(), Demo::of(&[]));
    let metadata = json!({"name": "demo", "id": "_demo_0123abc", "version": 1, "license": "MIT", "python-depends": [],
        "backend": {"type": "cuda"}});
    let files = names.iter().map(|name| (format!("build/{name}/metadata.json"), metadata.to_string()));
    server.put_all("v1", files);
    for (at, ((torch, cuda, python), theirs)) in systems.iter().zip(theirs).enumerate() {
        let venv = demo.test.root().join(format!("venv-{at}"));
        let packages = venv.join("lib").join(python).join("site-packages");
        let cuda = if cuda.is_empty() { "None".to_owned() } else { format!("'{cuda}'") };
        write(&packages.join("torch/version.py"), format!("__version__ = '{torch}.0'\ncuda: Optional[str] = {cuda}\n"));
        let mut command = demo.command(&server, "hub variants acme/demo@1 --only-compatible --json");
        let ran = Ran::ok(command.env("VIRTUAL_ENV", venv).env("CUDA_VISIBLE_DEVICES", ""));
        let report = ran.json();
        let rows = report["variants"].as_array().unwrap();
        let ours: Vec<&str> = rows.iter().map(|row| row["variant"].as_str().unwrap()).collect();
        assert_eq!(ours, theirs, "torch {torch}, CUDA {cuda}, {python}");
        assert!(rows.iter().enumerate().all(|(at, row)| row["preferred"] == (at == 0)), "{rows:#?}");
    }
}

/// Prints what the library says of each metadata.json: that it cannot be read, that it needs a later library, that it warns.
const JUDGE: &str = r#"
import json, sys
from kernels import validate
from kernels._rust import Metadata
answers = []
for text in json.loads(sys.argv[1]):
    try:
        metadata = Metadata.from_bytes(json.dumps(text).encode())
    except Exception:
        answers.append("unreadable")
        continue
    try:
        validate.MinverValidator().validate_metadata(metadata=metadata, variant="v")
    except RuntimeError:
        answers.append("needs version")
        continue
    provenance = metadata.provenance
    answers.append("dirty" if provenance is not None and provenance.dirty else "clean")
print(json.dumps(answers))
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn a_metadata_json_is_read_and_refused_as_the_library_does() {
    let Some(torches) = torches() else { return };
    let (sha1, sha256) = ("0123456789abcdef".repeat(3)[..40].to_owned(), "AB".repeat(32));
    let with = |key: &str, value: Value| {
        let mut metadata = json!({"name": "demo", "id": "_demo_0123abc", "version": 1, "license": "MIT",
            "python-depends": [], "backend": {"type": "cuda"}});
        metadata[key] = value;
        metadata
    };
    let builder = |value: Value| with("provenance", json!({"kernel-builder": value}));
    let kernel =
        |value: Value| with("provenance", json!({"kernel-builder": {"version": "any words"}, "kernel": value}));
    let cases = [
        kernel(json!({"commit": sha1, "dirty": false})),
        kernel(json!({"commit": sha256, "dirty": true})),
        kernel(json!({"sha": sha1, "dirty": true})),
        kernel(json!({"commit": sha1[..10], "dirty": false})),
        kernel(json!({"commit": sha1.replace('a', "g"), "dirty": false})),
        kernel(json!({"commit": sha1})),
        kernel(json!({"dirty": true})),
        kernel(Value::Null),
        builder(json!({"version": "1"})),
        builder(json!({"version": 1})),
        builder(json!({"commit": sha1, "dirty": false})),
        builder(json!({"version": "", "commit": sha1, "dirty": true})),
        builder(json!({"version": "1", "commit": sha1})),
        builder(json!({"version": "1", "commit": null, "dirty": null})),
        builder(json!({"version": "1", "dirty": true, "more": 1})),
        with("provenance", json!({})),
        with("provenance", Value::Null),
        with("provenance", json!("1")),
        with("kernels-minver", json!("0.17.2")),
        with("kernels-minver", json!("0.17.3")),
        with("kernels-minver", json!("1")),
        with("kernels-minver", json!("0.18.0.dev0")),
        with("unknown", json!(1)),
    ];
    let theirs = Ran::ok(torches.newest().args(["-c", JUDGE, &json!(cases).to_string()]));
    let theirs: Vec<String> = serde_json::from_str(theirs.out.trim()).unwrap();
    let (server, demo) = (Server::new(), Demo::of(&[]));
    let packages = demo.test.root().join("venv/lib/python3.12/site-packages");
    write(&packages.join("torch/version.py"), "__version__ = '2.12.0'\ncuda: Optional[str] = '13.0'\n");
    write(&packages.join("kernels-0.17.2.dist-info/METADATA"), "");
    for (version, text) in cases.iter().enumerate() {
        let file = (format!("build/{}/metadata.json", VARIANTS[0]), text.to_string());
        server.put_all(&format!("v{version}"), [file].into_iter());
    }
    let mut command = demo.command(&server, "hub variants acme/demo --all-versions --json");
    let ran = Ran::ok(command.env("VIRTUAL_ENV", demo.test.root().join("venv")).env("CUDA_VISIBLE_DEVICES", ""));
    let report = ran.json();
    for (case, (row, theirs)) in cases.iter().zip(report["variants"].as_array().unwrap().iter().zip(&theirs)) {
        let why = row["reason"].as_str().unwrap_or_default();
        let ours = match () {
            () if why.contains("metadata.json") => "unreadable",
            () if why.contains("needs version") => "needs version",
            () if row["dirty"] == true => "dirty",
            () => "clean",
        };
        assert_eq!(ours, theirs, "{case}: {row}");
    }
}

/// Upstream's own command, on a torch that was built for the CPU: it takes one with CUDA for a card. It is given a folder, since
/// library 0.17.2 asks the Hub for a model of this name.
const BENCHMARK: &str = r"
import torch
torch.version.cuda = None
from kernels.cli import main
main()
";

#[test]
fn upstreams_command_times_the_cases_of_kernel_toml_and_stops_at_a_wrong_result() {
    let Some(torches) = torches() else { return };
    let (server, demo) = (Server::new(), Demo::of(&["torch-universal"]));
    let path = demo.root.join("kernel.toml");
    let text = fs::read_to_string(&path).unwrap();
    write(
        &path,
        text.replace("rows = 128\nwidth = 256000", "rows = 4\nwidth = 256\nx_stride = 264").replace("8192", "16"),
    );
    let run = |result: &str| {
        let function = format!("def softcap(out, x, cap):\n    out.copy_({result})\n");
        demo.variant_of("torch-universal", &format!("import torch\n__all__ = [\"softcap\"]\n\n\n{function}"));
        let report = demo.publish(&server, "");
        assert_eq!(report["benchmarks"], json!(["benchmarks/benchmark_cases.py"]), "{report:#}");
        assert_eq!(report["benchmarks_left_out"], json!(["benchmarks/benchmark.py"]));
        // As a user has it: from the Hub, and not from the project.
        let there = demo.test.outside().join("there");
        for path in server.files("v1").keys().filter(|path| !path.ends_with(".so")) {
            write(&there.join(path), server.text("v1", path));
        }
        let mut command = torches.newest();
        command.env("OMP_NUM_THREADS", "1").args(["-c", BENCHMARK, "benchmark"]).arg(&there);
        Ran::of(command.args("--json --iterations 2 --warmup 1".split(' ')))
    };
    let ran = run("cap * torch.tanh(x / cap)");
    assert_eq!(ran.code, 0, "{ran:#?}");
    let report: Value = serde_json::from_str(ran.out.trim()).unwrap();
    let all = report["results"].as_array().unwrap();
    assert_eq!(all.len(), 2, "{report:#}");
    assert!(all.iter().all(|one| one["verified"] == true && one["timingResults"]["iterations"] == 2), "{report:#}");
    // A row for each in its table, with a tick where the results are the same.
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("│ Cases") && line.contains('✓')).count(), 2, "{ran:#?}");
    run("cap * torch.tanh(x / cap) + 0.5").expect(1, &["softcap: out is", "off the reference"]);
    // A project's own class is published as it is, and nothing beside it.
    write(
        &demo.root.join("benchmarks/benchmark.py"),
        "from kernels.benchmark import Benchmark\n\n\nclass Own(Benchmark):\n    pass\n",
    );
    assert_eq!(demo.publish(&server, "--dry-run")["benchmarks"], json!(["benchmarks/benchmark.py"]));
}
