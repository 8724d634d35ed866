//! The projects that `kernels init` generates, built with the real nvcc.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::{Ran, Test, cuda};
use serde_json::Value;

/// `kernels build` fails if a budget is exceeded, if a budget matches no kernel of its part, or if two parts have launchers
/// of the same name.
/// Projects for reading, quoting and copying, which `kernels init` does not offer.
const TEMPLATES: [&str; 5] = ["attention", "column_sum", "elementwise", "softmax", "transpose"];

#[test]
fn all_families_build_as_one_project_within_their_budgets() {
    let test = Test::without_git();
    let list = test.json("init --list");
    let families = list["families"].as_array().unwrap().iter();
    let names: Vec<&str> =
        families.flat_map(|family| family["operations"].as_object().unwrap().keys()).map(String::as_str).collect();
    test.ok(&format!("init everything --op {} --no-git", names.join(",")));
    let ran = Ran::of(test.command().env("CUDA_HOME", cuda::home()).env("KERNELS_CACHE", cuda::cache()).args([
        "build",
        "everything",
        "--arch",
        "90",
        "--json",
    ]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = ran.json();
    assert_eq!(report["over_budget"], serde_json::json!([]), "{}", ran.err);
    let units = report["targets"][0]["units"].as_array().unwrap();
    let part = |unit: &Value| {
        let source = Path::new(unit["source"].as_str().unwrap());
        let folder = source.parent().unwrap().file_name().unwrap();
        folder.to_string_lossy().into_owned()
    };
    let built: BTreeSet<String> = units.iter().map(part).collect();
    // Every bundled project with a torch side belongs to a family.
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    for project in fs::read_dir(kernels).unwrap() {
        let project = project.unwrap();
        if !project.path().join("kernel.toml").is_file() {
            continue;
        }
        let name = project.file_name().to_string_lossy().into_owned();
        let is_template = TEMPLATES.contains(&name.as_str());
        assert_ne!(built.contains(&name), is_template, "{name}: {built:?}");
    }
    assert!(built.contains("softcap"), "{built:?}");
}
