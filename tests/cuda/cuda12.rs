//! A toolkit of CUDA 12: what it does not compile for is left out, and its variant is for torches with CUDA 12.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::build_torch::Project;
use crate::support::torch::torches;
use crate::support::{Ran, Test, cuda, not_run};

const TRANSPOSE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/transpose");

#[test]
fn what_a_toolkit_does_not_compile_for_is_left_out_by_default_and_refused_where_it_was_asked_for() {
    let home = match cuda::cuda12() {
        Ok(home) => home,
        Err(why) => return not_run(&format!("builds with CUDA 12: {why}")),
    };
    let test = Test::without_git();
    let cache = test.root().join("cache");
    cuda::share_objects(&cache);
    let run = |arguments: &[&str]| {
        Ran::of(test.command().env("CUDA_HOME", &home).env("KERNELS_CACHE", &cache).args(arguments).arg(TRANSPOSE))
    };
    run(&["build"]).expect(0, &["left out: sm_100 and sm_120, for which nvcc 12.4"]);
    let built = run(&["build", "--json"]).json();
    let targets = built["targets"].as_array().unwrap().iter().map(|target| &target["arch"]);
    assert_eq!(targets.collect::<Vec<_>>(), [75, 80, 89, 90]);
    assert_eq!(built["archs_left_out"], json!([100, 120]));
    run(&["build", "--arch", "90,120"])
        .expect(1, &["nvcc 12.4", "CUDA_HOME", "does not compile for sm_120", "only for sm_50, ", " and sm_90"]);
    let report = run(&["ci", "--json"]).json();
    let builds = report["projects"][0]["checks"].as_array().unwrap().iter().filter(|check| check["group"] == "build");
    let builds: Vec<_> = builds.map(|check| (check["name"].as_str().unwrap(), &check["status"])).collect();
    let (passed, skipped) = (&json!("passed"), &json!("skipped"));
    let expected = [
        ("sm_75", passed),
        ("sm_80", passed),
        ("sm_89", passed),
        ("sm_90", passed),
        ("sm_100", skipped),
        ("sm_120", skipped),
    ];
    assert_eq!(builds, expected, "{report:#}");
    // Nothing is left.
    test.ok("init newer --op blank --owner someone --no-git");
    let path = test.project.join("newer/build.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("backend = \"cuda\"\n", "backend = \"cuda\"\ncuda-capabilities = [\"10.0\"]\n"))
        .unwrap();
    for typed in ["build", "build --torch", "ci"] {
        let mut command = test.command();
        command.args(typed.split(' ')).arg("newer").env("CUDA_HOME", &home).env("KERNELS_CACHE", &cache);
        let ran = Ran::of(&mut command);
        assert!(ran.code == 1 && format!("{}{}", ran.out, ran.err).contains("sm_90"), "{ran:#?}");
    }
}

/// Loads a variant's library into a torch, with the CUDA runtime that it needs, and prints its operators.
const LOAD: &str = "import ctypes, sys, torch
runtime, library, namespace = sys.argv[1:]
ctypes.CDLL(runtime, ctypes.RTLD_GLOBAL)
torch.ops.load_library(library)
print(sorted({schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(namespace + '::')}))
";

#[test]
fn a_variant_for_cuda_12_lies_beside_the_other_and_loads() {
    let home = match cuda::cuda12() {
        Ok(home) => home,
        Err(why) => return not_run(&format!("the variant for CUDA 12: {why}")),
    };
    let project = Project::new();
    let build = |change: &dyn Fn(&mut Command)| -> Value {
        let mut command = project.command("--json");
        change(&mut command);
        Ran::ok(&mut command).json()
    };
    let usual = build(&|_| {});
    let older = build(&|command| _ = command.env("CUDA_HOME", &home));
    assert_eq!(usual["archs"], json!(["7.5", "8.0", "8.9", "9.0", "10.0", "12.0+PTX"]));
    assert_eq!(older["archs"], json!(["7.5", "8.0", "8.9", "9.0+PTX"]));
    assert_eq!(older["variant"], "torch-stable-abi211-cu124-x86_64-linux");
    let notes = older["notes"].to_string();
    assert!(notes.contains("for torches with CUDA 12") && notes.contains("a toolkit of CUDA 13"), "{notes}");
    // Neither replaces the other.
    assert_eq!(build(&|_| {})["unchanged"], true);
    let mut refused = project.command("--arch 100");
    Ran::of(refused.env("CUDA_HOME", &home)).expect(1, &["nvcc 12.4", "does not compile for sm_100"]);
    let libraries = older["libraries"].as_array().unwrap();
    assert!(
        libraries.contains(&json!("libcudart.so.12")) && !libraries.contains(&json!("libcudart.so.13")),
        "{older:#}"
    );
    let torches = match torches() {
        Ok(torches) => torches,
        Err(why) => return not_run(&why),
    };
    let (library, id) = (older["library"].as_str().unwrap(), older["id"].as_str().unwrap());
    let mut load = torches.newest();
    load.args(["-c", LOAD]).arg(home.join("lib64/libcudart.so.12")).args([library, id]);
    let operators = Ran::ok(&mut load).out;
    assert!(operators.contains(&format!("{id}::scale")), "{operators}");
}
