//! The evidence of the bundled projects matches the code. Needs no GPU; compiles with the pinned toolchain, which is
//! installed into the tests' cache if it is missing.

use std::fs;
use std::path::Path;

use crate::support::{Test, cuda, pending, report, write};
use kernels::compile;
use kernels::evidence::{self, Freshness};
use kernels::project::Project;
use kernels::toolchain::{self, Toolchain};
use serde_json::Value;

fn pinned() -> Toolchain {
    let found =
        toolchain::candidates().into_iter().filter_map(|candidate| candidate.found.ok()).find(Toolchain::is_pinned);
    found.unwrap_or_else(|| {
        let home = cuda::home();
        Toolchain {
            nvcc: home.join("bin/nvcc"),
            version: Toolchain::PINNED.to_owned(),
            origin: "the tests' cache".to_owned(),
            library_dirs: vec![home.join("lib")],
        }
    })
}

/// Every bundled project has evidence, and none of it is stale.
#[test]
fn the_evidence_of_every_bundled_project_is_of_its_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut projects: Vec<_> = fs::read_dir(root.join("kernels"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("kernel.toml").is_file())
        .collect();
    projects.sort();
    assert!(!projects.is_empty(), "there is no project in kernels/");
    // Of the examples, only this one has its own kernels.
    projects.push(root.join("examples/layer_norm_gelu"));
    let mut wrong = Vec::new();
    let mut pending = pending::pending();
    for dir in projects {
        let shown = dir.strip_prefix(root).unwrap().display().to_string();
        let project = Project::open(&dir).unwrap_or_else(|error| panic!("{shown}: {error:#}"));
        let operations: Vec<String> = project.spec.operations.iter().map(|operation| operation.name.clone()).collect();
        let standings = evidence::check(
            &root.join("evidence"),
            &project.name,
            &operations,
            (&project).into(),
            Some(&mut |archs: &[u32]| compile::build(&project, archs, &pinned(), false, &|_| {})?.device_digest()),
        )
        .unwrap_or_else(|error| panic!("{shown}: {error:#}"));
        for standing in standings {
            let record = standing.file.as_deref().map_or_else(|| standing.operation.clone(), pending::stem);
            let what = match (standing.freshness, standing.file) {
                (Freshness::Fresh, _) => continue,
                (_, _) if pending.contains_key(&record) => {
                    let why = pending.remove(&record).unwrap_or_default();
                    say(&format!("not run: evidence of {record} is to be recorded on a card: {why}"));
                    continue;
                }
                (Freshness::OlderSet { set }, Some(file)) => {
                    format!("{} was verified under set {set}", file.strip_prefix(root).unwrap().display())
                }
                (Freshness::Stale { what }, Some(file)) => {
                    format!("{} is stale: {what}", file.strip_prefix(root).unwrap().display())
                }
                _ => format!("evidence/ has nothing of {}", standing.operation),
            };
            wrong.push(format!("{what}; on a card: kernels bench {shown} --record"));
        }
    }
    // Other tests look after these.
    let others = ["harness", "trials", "e2e-"];
    pending.retain(|name, _| !others.iter().any(|other| name.starts_with(other)));
    for name in pending.keys() {
        wrong.push(format!("evidence/pending.toml names {name}, which is recorded or no operation"));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Prints directly, because the test runner hides the output of passing tests.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "\n{line}");
}

/// The launchers of a project that is compiled and never run.
const SOURCE: &str = r#"
extern "C" __global__ void copy(float *out, const float *x) { out[threadIdx.x] = x[threadIdx.x] * 2.0f; }
extern "C" int rms_norm_launch(float *out, const float *x, void *stream) {
  copy<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(out, x);
  return 0;
}
"#;

#[test]
fn ci_holds_evidence_against_the_compiled_code_and_a_comment_does_not_count() {
    let toolchain = pinned();
    let test = Test::new();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/rmsnorm");
    let dir = test.project.join("p");
    let spec = fs::read_to_string(bundled.join("kernel.toml")).unwrap();
    // One operation, without budgets, tuning tables and Python files.
    let spec = spec.split("[[budget]]").next().unwrap().split("[[tuning]]").next().unwrap();
    write(&dir.join("kernel.toml"), spec);
    write(
        &dir.join("build.toml"),
        "[general]\nname = \"rmsnorm\"\nversion = 1\nedition = 5\nlicense = \"MIT\"\nbackends = [\"cuda\"]\n\n\
         [torch]\nsrc = []\n\n[kernel.rmsnorm]\nbackend = \"cuda\"\n\
         depends = []\nsrc = [\"a.cu\"]\n",
    );
    write(&dir.join("a.cu"), SOURCE);
    let project = Project::open(&dir).unwrap();
    let build = compile::build(&project, &[75, 80, 90], &toolchain, false, &|_| {}).unwrap();
    let (mut bench, mut verify) = (report::bench(), report::verify());
    bench.project.clone_from(&project.name);
    verify.project.clone_from(&project.name);
    bench.cases.retain(|case| case.operation == project.spec.operations[0].name);
    evidence::record(
        &test.project.join("evidence"),
        &bench,
        &verify,
        &build.device_digest().unwrap(),
        (&project).into(),
    )
    .unwrap();
    let ci = |evidence: &str| {
        let ran = test.command().args(["ci", "p", "--json"]).env("CUDA_HOME", toolchain.root()).output().unwrap();
        let json: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let checks = json["projects"][0]["checks"].as_array().unwrap();
        let found = checks
            .iter()
            .find(|check| check["group"] == "evidence" && check["name"] != "all")
            .unwrap_or_else(|| panic!("{json:#}"));
        assert_eq!(found["status"], evidence, "{json:#}");
        // The sources are not those that kernel.toml describes, and the text check says so.
        let failed = checks.iter().filter(|check| check["status"] == "failed" && check["group"] != "check").count();
        assert_eq!(failed, usize::from(evidence == "failed"), "{json:#}");
        assert_eq!(ran.status.code(), Some(1), "{json:#}");
        found.to_string()
    };
    ci("passed");
    write(&dir.join("a.cu"), format!("// a comment\n\n{SOURCE}"));
    ci("passed");
    write(&dir.join("a.cu"), SOURCE.replace("2.0f", "3.0f"));
    let said = ci("failed");
    assert!(said.contains("rms_norm-h100.json") && said.contains("kernels bench p --record"), "{said}");
    write(&dir.join("a.cu"), SOURCE);
    write(
        &dir.join("kernel.toml"),
        format!(
            "{spec}
# a comment
"
        ),
    );
    ci("passed");
    write(&dir.join("kernel.toml"), spec.replace("rows = 8192", "rows = 8191"));
    assert!(ci("failed").contains("the operations, cases or budgets of kernel.toml are not the recorded ones"));
}
