//! `kernels ci`, and what its checks become: lines, `JUnit` XML, a job's summary, JSON, a workflow.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::yaml::yaml;
use crate::support::{Test, executable, exists, report, wait_until, write};
use kernels::bench::BenchReport;
use kernels::compile::{Accesses, Build, Kernel, Target, Unit};
use kernels::evidence::{self, Texts};
use kernels::gpu::Card;
use kernels::project::{Budget, CaseSet, Formula, Operation, OracleRef, Project, Refusal, Spec, Tolerance};
use kernels::report::check::{Check, Checks, Status, Suite};
use kernels::report::{junit, summary};
use kernels::session::checks::{self, Wanted};
use kernels::session::machine::Lab;
use kernels::toolchain::Toolchain;
use kernels::verify::{Kind, VerifyReport};
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

/// A hand-written description of a machine.
struct Machine {
    card: Result<Card, String>,
    toolchain: Result<Toolchain, String>,
    builds: Result<(), String>,
    digest: String,
    verify: VerifyReport,
    bench: BenchReport,
    spilled: u32,
    timed: Cell<bool>,
}

impl Machine {
    fn new() -> Self {
        Self {
            card: Ok(report::card()),
            toolchain: Ok(Toolchain {
                nvcc: PathBuf::from("nvcc"),
                version: Toolchain::PINNED.to_owned(),
                origin: "PATH".to_owned(),
                library_dirs: Vec::new(),
            }),
            builds: Ok(()),
            digest: "code 1".to_owned(),
            verify: report::verify(),
            bench: report::bench(),
            spilled: 0,
            timed: Cell::new(false),
        }
    }

    fn without_card() -> Self {
        Self { card: Err("no driver".to_owned()), ..Self::new() }
    }
}

impl Lab for Machine {
    fn card(&self) -> Result<Card, String> {
        self.card.clone()
    }
    fn toolchain(&self) -> Result<Toolchain, String> {
        self.toolchain.clone()
    }
    fn pinned(&self) -> Result<Toolchain, String> {
        match &self.toolchain {
            Ok(toolchain) if toolchain.is_pinned() => Ok(toolchain.clone()),
            _ => Err("another nvcc".to_owned()),
        }
    }
    fn build(&self, _: &Project, archs: &[u32], toolchain: &Toolchain) -> anyhow::Result<Build> {
        self.builds.clone().map_err(anyhow::Error::msg)?;
        Ok(Build {
            compiler: toolchain.version.clone(),
            targets: archs
                .iter()
                .map(|arch| Target {
                    arch: *arch,
                    features: None,
                    library: PathBuf::new(),
                    units: vec![unit(self.spilled)],
                })
                .collect(),
            compiled: 0,
        })
    }
    fn device_digest(&self, build: &Build) -> anyhow::Result<String> {
        Ok(format!("{} for {}", self.digest, build.targets.len()))
    }
    fn torch(&self, _: &Project, _: Option<&PathBuf>, required: bool, tell: &mut dyn FnMut(Check)) {
        tell(Check::passed("torch", if required { "required" } else { "wanted" }, ""));
    }
    fn verify(&self, _: &Project, _: &Build) -> anyhow::Result<VerifyReport> {
        Ok(self.verify.clone())
    }
    fn bench(&self, _: &Project, _: &Build) -> anyhow::Result<BenchReport> {
        self.timed.set(true);
        Ok(self.bench.clone())
    }
}

fn unit(spilled: u32) -> Unit {
    Unit {
        source: PathBuf::from("a.cu"),
        cubin: PathBuf::new(),
        ptx: PathBuf::new(),
        kernels: vec![Kernel {
            symbol: "rms_norm".to_owned(),
            name: "rms_norm".to_owned(),
            registers: 40,
            spill_stores: spilled,
            spill_loads: 0,
            stack: 0,
            shared: 0,
            max_threads: 256,
            occupancy: 1.0,
            loads: Accesses::default(),
            stores: Accesses::default(),
        }],
    }
}

fn project(root: &Path) -> Project {
    let formula = |text: &str| Formula::parse(text).unwrap();
    let set = CaseSet {
        name: None,
        values: BTreeMap::new(),
        dtypes: Vec::new(),
        offsets: BTreeMap::new(),
        inputs: Vec::new(),
        draw: None,
        refused: false,
        refusal: Refusal::default(),
    };
    Project {
        root: root.to_owned(),
        name: "rmsnorm".to_owned(),
        sources: Vec::new(),
        includes: Vec::new(),
        cuda_flags: Vec::new(),
        capabilities: kernels::project::Capabilities::default(),
        spec: Spec {
            operations: ["rms_norm", "add_rms_norm"]
                .into_iter()
                .map(|name| Operation {
                    name: name.to_owned(),
                    launcher: format!("{name}_launch"),
                    error: None,
                    oracle: OracleRef::Bundled("rms_norm".to_owned()),
                    dtypes: Vec::new(),
                    types: BTreeMap::new(),
                    arguments: Vec::new(),
                    defaults: BTreeMap::new(),
                    bytes: formula("1"),
                    flops: formula("1"),
                    verify: vec![set.clone()],
                    bench: vec![set.clone()],
                    reject: Vec::new(),
                    finite_only: None,
                    tolerance: Tolerance::default(),
                })
                .collect(),
            budgets: vec![Budget { kernel: "*".to_owned(), spill_bytes: Some(0), ..Budget::default() }],
            tunings: Vec::new(),
        },
        spec_digest: "cases 1".to_owned(),
        source_digest: "sources 1".to_owned(),
    }
}

fn run(lab: &Machine, root: &Path, wanted: &Wanted) -> Vec<Check> {
    let mut told = Vec::new();
    let mut tell = |check: &Check| told.push(check.name.clone());
    let mut checks = Checks::new(&mut tell);
    let project = project(root);
    if let Some(build) = checks::without_a_card(lab, &project, root, wanted, &mut checks)
        && checks::verify(lab, &project, &build, &mut checks)
    {
        checks::bench(lab, &project, &build, &mut checks);
    }
    let checks = checks.done;
    assert!(checks.iter().map(|check| &check.name).eq(&told), "every check is told once, in order");
    checks
}

/// `build/sm_75 passed`
fn told(checks: &[Check]) -> Vec<String> {
    checks
        .iter()
        .map(|check| {
            let status = match &check.status {
                Status::Passed => "passed".to_owned(),
                Status::Failed { message, .. } => format!("FAILED {message}"),
                Status::Skipped { reason } => format!("skipped: {reason}"),
            };
            format!("{}/{} {status}", check.group, check.name)
        })
        .collect()
}

fn expect(checks: &[Check], lines: &[&str]) {
    let told = told(checks);
    for line in lines {
        assert!(told.iter().any(|told| told.starts_with(line)), "no {line:?} in {told:#?}");
    }
}

#[test]
fn without_a_card_what_needs_one_is_skipped_by_name_or_fails_when_it_is_required() {
    let dir = TempDir::new().unwrap();
    let checks = run(&Machine::without_card(), dir.path(), &Wanted::default());
    assert_eq!(
        told(&checks),
        [
            "build/sm_75 passed",
            "build/sm_80 passed",
            "build/sm_89 passed",
            "build/sm_90 passed",
            "build/sm_100 passed",
            "build/sm_120 passed",
            "budgets/all passed",
            &format!(
                "evidence/all skipped: none recorded in {}; `kernels bench {} --record` on a card records it",
                dir.path().join("evidence").display(),
                dir.path().display()
            ),
            "verify/all skipped: no card here: no driver",
            "bench/all skipped: no card here: no driver",
        ]
    );
    let required = Wanted { require_card: true, ..Wanted::default() };
    let checks = run(&Machine::without_card(), dir.path(), &required);
    expect(
        &checks,
        &[
            "verify/all FAILED --require-card, and no card here: no driver",
            "bench/all FAILED --require-card, and no card here",
        ],
    );
}

#[test]
fn a_project_with_a_binding_is_checked_for_torch_too_once_it_builds() {
    let dir = TempDir::new().unwrap();
    let groups = |lab: &Machine, wanted: &Wanted| {
        let checks = run(lab, dir.path(), wanted).into_iter();
        checks.filter(|check| check.group == "torch").map(|check| check.name).collect::<Vec<_>>()
    };
    write(&dir.path().join("build.toml"), "[torch]\nsrc = [\"a.h\"]\n");
    assert!(groups(&Machine::new(), &Wanted::default()).is_empty());
    write(&dir.path().join("build.toml"), "[torch]\nsrc = [\"a.h\", \"a.cpp\"]\n");
    assert_eq!(groups(&Machine::new(), &Wanted::default()), ["wanted"]);
    assert_eq!(groups(&Machine::new(), &Wanted { require_torch: true, ..Wanted::default() }), ["required"]);
    let broken = Machine { builds: Err("no".to_owned()), ..Machine::new() };
    assert_eq!(groups(&broken, &Wanted::default()), ["all"]);
}

#[test]
fn with_a_card_every_path_and_every_case_is_a_check_and_its_architecture_is_built_too() {
    let dir = TempDir::new().unwrap();
    let mut lab = Machine::new();
    lab.card = Ok(Card { arch: 120, ..report::card() });
    let checks = run(&lab, dir.path(), &Wanted::default());
    expect(
        &checks,
        &[
            "build/sm_120 passed",
            "verify/sm_90 passed",
            "verify/compute_75 through the driver's compiler passed",
            "bench/rms_norm: Qwen3-8B: rows=8192 width=4096 f32 passed",
            "bench/add_rms_norm: Qwen3-8B: rows=8192 width=4096 bf16 passed",
        ],
    );
    assert!(!told(&checks).iter().any(|line| line.contains("FAILED")));
}

#[test]
fn what_was_found_wrong_fails_its_path_or_case_and_what_is_wrong_is_not_timed() {
    let dir = TempDir::new().unwrap();
    let mut lab = Machine::new();
    lab.verify.findings = vec![
        report::finding(Kind::WrongValue, Some("rows=1 width=7 bf16"), "sm_90"),
        report::finding(Kind::NoLaunch, None, "somewhere else"),
    ];
    let checks = run(&lab, dir.path(), &Wanted::default());
    expect(
        &checks,
        &[
            "verify/sm_90 FAILED wrong-value, rms_norm, rows=1 width=7 bf16: element [0, 3]",
            "verify/compute_75 through the driver's compiler passed",
            "verify/rms_norm (somewhere else) FAILED no-launch, rms_norm: element",
            "bench/all skipped: what is not right is not timed",
        ],
    );
    assert!(!lab.timed.get());

    let mut lab = Machine::new();
    let label = lab.bench.cases[1].case.clone();
    lab.bench.findings = vec![
        report::finding(Kind::TooFast, Some(&label), "sm_90"),
        report::finding(Kind::TimedOutput, Some("a case that has no row"), "sm_90"),
    ];
    let checks = run(&lab, dir.path(), &Wanted::default());
    expect(
        &checks,
        &[
            "bench/rms_norm: Qwen3-8B: rows=8192 width=4096 bf16 passed",
            "bench/rms_norm: Qwen3-8B: rows=8192 width=4096 f16 FAILED too-fast",
            "bench/rms_norm: a case that has no row (sm_90) FAILED timed-output",
        ],
    );
    lab.bench.findings.clear();
    lab.bench.cases.clear();
    let checks = run(&lab, dir.path(), &Wanted::default());
    expect(&checks, &["bench/all FAILED nothing was timed"]);
}

#[test]
fn a_project_that_does_not_build_fails_once_and_the_rest_is_skipped_by_name() {
    let dir = TempDir::new().unwrap();
    let mut lab = Machine::new();
    lab.builds = Err("a.cu(3): error: expected a \";\"\n1 error".to_owned());
    let checks = run(&lab, dir.path(), &Wanted::default());
    expect(
        &checks,
        &[
            "build/all FAILED a.cu(3): error",
            "budgets/all skipped: the project did not build",
            "evidence/all skipped: none recorded",
            "verify/all skipped: the project did not build",
            "bench/all skipped: the project did not build",
        ],
    );
    assert_eq!(checks.len(), 5);
}

#[test]
fn an_overrun_budget_fails_by_itself_and_the_rest_is_still_checked() {
    let dir = TempDir::new().unwrap();
    let mut lab = Machine::new();
    lab.spilled = 16;
    let checks = run(&lab, dir.path(), &Wanted::default());
    let told = told(&checks);
    let budgets = told.iter().find(|line| line.starts_with("budgets/")).unwrap();
    assert!(budgets.contains("FAILED") && budgets.contains("rms_norm"), "{budgets}");
    expect(&checks, &["build/sm_90 passed", "verify/sm_90 passed"]);
}

#[test]
fn a_budget_of_an_architecture_that_is_not_built_is_skipped_by_name() {
    let dir = TempDir::new().unwrap();
    let budgets = |archs: &[&[u32]], lab: &Machine| {
        let mut project = project(dir.path());
        let of = |arch: &&[u32]| Budget { arch: arch.to_vec(), ..project.spec.budgets[0].clone() };
        project.spec.budgets = archs.iter().map(of).collect();
        let mut tell = |_: &Check| {};
        let mut checks = Checks::new(&mut tell);
        checks::without_a_card(lab, &project, dir.path(), &Wanted::default(), &mut checks);
        let checks: Vec<Check> = checks.done.into_iter().filter(|check| check.group == "budgets").collect();
        told(&checks)
    };
    let lab = Machine::without_card();
    let none = "budgets/budget 1 (kernel = \"*\") skipped: it is for sm_103, which was not compiled for";
    assert_eq!(budgets(&[&[103]], &lab), [none]);
    let some =
        "budgets/budget 2 (kernel = \"*\") skipped: it is for sm_103 and sm_110 too, which were not compiled for";
    assert_eq!(budgets(&[&[103], &[90, 103, 110], &[]], &lab), ["budgets/all passed", none, some]);
    // With a card of its own the architecture is built.
    let card = Machine { card: Ok(Card { arch: 103, ..report::card() }), spilled: 8, ..Machine::new() };
    let over = "budgets/all FAILED budget 1 (kernel = \"*\"): rms_norm on sm_103: spill_bytes 8, allowed 0";
    assert_eq!(budgets(&[&[103]], &card), [over]);
}

#[test]
fn evidence_is_fresh_stale_missing_or_cannot_be_told() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("evidence");
    let mut lab = Machine::without_card();
    evidence::record(
        &folder,
        &report::bench(),
        &report::verify(),
        "code 1 for 3",
        Texts { spec_digest: "cases 1", source_digest: "sources 1" },
    )
    .unwrap();
    fs::remove_file(folder.join("add_rms_norm-h100.json")).unwrap();
    let default = Wanted::default();
    let checks = run(&lab, dir.path(), &default);
    expect(
        &checks,
        &["evidence/rms_norm on NVIDIA H100 80GB HBM3 passed", "evidence/add_rms_norm skipped: none recorded in"],
    );
    let named = Wanted { evidence: Some(&folder), ..default };
    expect(&run(&lab, dir.path(), &named), &["evidence/add_rms_norm FAILED none recorded in"]);
    lab.digest = "code 2".to_owned();
    let stale = format!(
        "evidence/rms_norm on NVIDIA H100 80GB HBM3 FAILED {} is stale: the compiled device code",
        folder.join("rms_norm-h100.json").display()
    );
    expect(&run(&lab, dir.path(), &default), &[&stale]);
    lab.toolchain.as_mut().unwrap().version = "12.4.131".to_owned();
    expect(&run(&lab, dir.path(), &default), &["evidence/rms_norm on NVIDIA H100 80GB HBM3 skipped: another nvcc"]);
    // A record that is skipped without a signer's signature could be anybody's.
    let signers = dir.path().join("signers");
    fs::write(&signers, "").unwrap();
    let wanted = Wanted { signers: Some(&signers), ..default };
    expect(&run(&lab, dir.path(), &wanted), &["evidence/rms_norm on NVIDIA H100 80GB HBM3 FAILED"]);
    write(&folder.join("x.json"), "{\"format\": 9}");
    expect(&run(&lab, dir.path(), &default), &["evidence/all FAILED"]);
}

fn suites() -> Vec<Suite> {
    vec![
        Suite {
            name: "rms<norm> & \"co\"".to_owned(),
            dir: "kernels/rmsnorm".to_owned(),
            checks: vec![
                Check::passed("build", "sm_90", "2 kernels"),
                Check::failed("verify", "sm_90", "first line\n  second | `line` ``` </failure>\u{1b}"),
                Check::skipped("bench", "all", "no card here"),
            ],
            seconds: 1.5,
            ..Suite::default()
        },
        Suite {
            name: "other".to_owned(),
            dir: ".".to_owned(),
            checks: vec![Check::passed("build", "sm_90", "").taking(2.0)],
            seconds: 2.0,
            ..Suite::default()
        },
    ]
}

const JUNIT: &str = r#"
import json, sys, xml.etree.ElementTree as t
root = t.parse(sys.argv[1]).getroot()
allowed = {
    "testsuites": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time", "file"}, {"testcase"}),
    "testcase": ({"classname", "name", "time"}, {"failure", "skipped", "system-out"}),
    "failure": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}
assert root.tag == "testsuites", root.tag
for e in root.iter():
    attributes, children = allowed[e.tag]
    assert set(e.attrib) <= attributes, (e.tag, e.attrib)
    assert {c.tag for c in e} <= children, (e.tag, [c.tag for c in e])
    if e.tag in ("testsuites", "testsuite"):
        count = lambda tag: str(len(list(e.iter(tag))))
        assert (e.get("tests"), e.get("failures"), e.get("skipped"), e.get("errors")) == \
            (count("testcase"), count("failure"), count("skipped"), "0"), e.attrib
        float(e.get("time"))
    if e.tag == "testcase":
        assert e.get("classname") and e.get("name"), e.attrib
        tags = [c.tag for c in e]
        assert tags == sorted(tags, key=["skipped", "failure", "system-out"].index) and len(tags) <= 2, tags
print(json.dumps([[s.get("name"), [[c.get("name"), [[d.tag, d.get("message"), d.text] for d in c]] for c in s]] for s in root]))
"#;

/// Parses the file with python3, which first checks the structure of `JUnit` files.
fn read_junit(xml: &str) -> Value {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("junit.xml");
    fs::write(&path, xml).unwrap();
    let ran = Command::new("python3").args(["-c", JUNIT]).arg(&path).output().expect("python3 is needed");
    assert!(ran.status.success(), "{}\n{xml}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
fn junit_has_the_structure_that_every_reader_of_it_knows() {
    let read = read_junit(&junit::render(&suites()));
    assert_eq!(read[0][0], "rms<norm> & \"co\"");
    let failure = &read[0][1][1][1][0];
    assert_eq!(failure[0], "failure");
    assert_eq!(failure[1], "first line");
    assert_eq!(failure[2], "first line\n  second | `line` ``` </failure>\u{fffd}");
    assert_eq!(read[0][1][2][1][0][1], "no card here");
    assert_eq!(read[1][1][0][1], Value::Array(Vec::new()));
    assert_eq!(read_junit(&junit::render(&[])), Value::Array(Vec::new()));
}

proptest! {
    // Each starts a python3.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_passes_through_junit(text in "\\PC{1,40}|[\u{0}-\u{2f}\u{7f}-\u{a0}<>&'\"\\]]{1,40}") {
        let suite = Suite {
            name: "n".to_owned(),
            dir: text.clone(),
            checks: vec![Check::failed("g", format!("c{text}"), format!("t{text}"))],
            seconds: 0.0,
            ..Suite::default()
        };
        let read = read_junit(&junit::render(&[suite]));
        let shown: String = text
            .chars()
            .map(|c| match c {
                '\n' | '\r' | '\t' => c,
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => '\u{fffd}',
                c => c,
            })
            .collect();
        prop_assert_eq!(read[0][1][0][0].as_str().unwrap(), format!("c{shown}"));
        prop_assert_eq!(read[0][1][0][1][0][2].as_str().unwrap(), format!("t{shown}"));
    }
}

#[test]
fn the_summary_shows_what_failed_first_and_in_full() {
    let text = summary::render(&suites());
    assert!(text.contains("## ❌ rms&lt;norm&gt; &amp; \"co\": 1 passed, 1 failed, 1 skipped"), "{text}");
    let failed = text.find("**verify: sm\\_90**").or(text.find("**verify: sm_90**"));
    assert!(failed.unwrap() < text.find("| ✅ |").unwrap(), "{text}");
    assert!(text.contains("    first line\n      second | `line`"), "{text}");
    assert!(text.contains("| ⏭️ | bench: all | no card here |"), "{text}");
    assert!(text.contains("## ✅ other: 1 passed, 0 failed, 0 skipped"), "{text}");
}

fn broken(test: &Test, name: &str) {
    let dir = test.project.join(name);
    write(&dir.join("build.toml"), "[general]\nname = \"broken\"\n");
    write(&dir.join("kernel.toml"), "format = 1\n[[operation\n");
}

#[test]
fn ci_of_a_folder_that_is_no_project_is_wrong_usage_and_names_it() {
    let test = Test::new();
    broken(&test, "there");
    fs::create_dir(test.project.join("empty")).unwrap();
    test.run("ci there empty").expect(2, &["empty", "build.toml"]);
    test.run("ci there nowhere").expect(2, &["nowhere", "no such folder"]);
    test.run("ci").expect(2, &["kernel.toml"]);
    // Of a shell's `*`, what projects share is none of them.
    test.write("shared/pack.cuh", "");
    test.run("ci shared").expect(2, &["shared is not a kernel project"]);
    test.run("ci there shared").expect(1, &["shared is left out", "neither build.toml nor kernel.toml", "there"]);
}

#[test]
fn a_folder_that_ci_leaves_out_is_named_in_json_in_junit_and_in_the_summary() {
    let test = Test::new();
    broken(&test, "there");
    // Both files of a project were deleted.
    test.write("once/kernel.cu", "");
    let summary = test.project.join("summary.md");
    let reason = "once is left out: it has neither build.toml nor kernel.toml";
    for flag in ["--json", "--quiet"] {
        let mut command = test.command();
        command.args(["ci", "once", "there", "--junit", "out.xml", flag]).env("GITHUB_STEP_SUMMARY", &summary);
        let ran = crate::support::Ran::of(&mut command);
        ran.expect(1, &[]);
        if flag == "--json" {
            let json = ran.json();
            assert_eq!(json["left_out"], serde_json::json!(["once"]));
            assert_eq!(json["projects"][0]["dir"], "there");
            assert_eq!(json["projects"][1]["dir"], "once");
            assert_eq!(json["projects"][1]["checks"][0]["reason"], reason);
            assert_eq!(json["counts"], serde_json::json!({"passed": 0, "failed": 1, "skipped": 7}));
        }
        let junit = fs::read_to_string(test.project.join("out.xml")).unwrap();
        assert_eq!(read_junit(&junit).as_array().unwrap().len(), 2, "{junit}");
        assert!(junit.contains(&format!("<skipped message=\"{reason}\"/>")), "{junit}");
        let text = fs::read_to_string(&summary).unwrap();
        assert!(text.contains(reason), "{text}");
        fs::remove_file(&summary).unwrap();
    }
}

#[test]
fn ci_of_projects_that_cannot_be_read_reports_all_of_them_and_exits_1() {
    let test = Test::new();
    broken(&test, "b");
    broken(&test, "a");
    let summary = test.project.join("summary.md");
    write(&summary, "before\n");
    let ran = test
        .command()
        .args(["ci", "b", "a", "--junit", "out.xml", "--json"])
        .env("GITHUB_STEP_SUMMARY", &summary)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(json["projects"][0]["dir"], "b");
    assert_eq!(json["projects"][1]["dir"], "a");
    assert_eq!(json["counts"]["failed"], 2);
    assert_eq!(json["projects"][0]["checks"][0]["status"], "failed");
    let skipped = &json["projects"][0]["checks"];
    assert_eq!(skipped.as_array().unwrap().len(), 7);
    let read = read_junit(&fs::read_to_string(test.project.join("out.xml")).unwrap());
    assert_eq!(read[1][0], "a");
    let text = fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("before\n## ❌ b"), "{text}");
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure_beside_the_results() {
    let test = Test::new();
    broken(&test, "a");
    fs::create_dir(test.project.join("taken.xml")).unwrap();
    let ran = test
        .command()
        .args(["ci", "a", "--junit", "taken.xml", "--json"])
        .env("GITHUB_STEP_SUMMARY", test.project.join("missing/summary.md"))
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1));
    let err = String::from_utf8(ran.stderr).unwrap();
    assert!(err.contains("taken.xml") && err.contains("no regular file"), "{err}");
    assert!(err.contains("missing/summary.md") && err.contains("GITHUB_STEP_SUMMARY"), "{err}");
    let json: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(json["unwritten"].as_array().unwrap().len(), 2);
    assert_eq!(json["projects"][0]["dir"], "a");
}

#[test]
fn ci_workflow_prints_yaml_with_a_job_for_no_card_and_one_for_a_card() {
    let test = Test::new();
    let ran = test.command().args(["ci", "--workflow", "kernels/rmsnorm", "a folder/it's"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    let text = String::from_utf8(ran.stdout).unwrap();
    let workflow = yaml(&text);
    let jobs = workflow["jobs"].as_object().unwrap();
    assert_eq!(jobs.len(), 2);
    assert!(jobs["build"]["runs-on"].as_str().unwrap().starts_with("ubuntu-"));
    assert_eq!(jobs["card"]["runs-on"][0], "self-hosted");
    assert_eq!(workflow["permissions"]["contents"], "read");
    for (name, job) in jobs {
        let steps = job["steps"].as_array().unwrap();
        let commands: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
        assert!(commands.contains(&"kernels toolchain install"), "{name}");
        assert!(commands[0].contains("sha256sum --check") && commands[0].contains("--rev \"$ref\""), "{}", commands[0]);
        let ci = commands.iter().find(|run| run.starts_with("kernels ci")).unwrap();
        assert!(ci.contains(r"kernels/rmsnorm 'a folder/it'\''s' "), "{ci}");
        assert_eq!(ci.contains("--require-card"), name == "card", "{ci}");
        let report = ci.split("--junit ").nth(1).unwrap();
        let upload = steps
            .iter()
            .find(|step| step["uses"].as_str().is_some_and(|uses| uses.contains("upload-artifact")))
            .unwrap();
        assert_eq!(upload["with"]["path"], report);
        assert_eq!(upload["if"], "always()");
        for uses in steps.iter().filter_map(|step| step["uses"].as_str()) {
            let (action, version) = uses.split_once('@').unwrap();
            assert!(action.starts_with("actions/"), "{uses}");
            assert!(version.strip_prefix('v').is_some_and(|major| major.parse::<u8>().is_ok()), "{uses}");
        }
    }
    let cached: Vec<&str> =
        jobs["build"]["steps"].as_array().unwrap().iter().filter_map(|step| step["with"]["path"].as_str()).collect();
    assert!(cached.iter().any(|path| path.contains(Toolchain::PINNED)), "{cached:?}");
    for dir in ["/absolute", "../beside", "a${{ secrets.X }}"] {
        let ran = test.command().args(["ci", "--workflow", dir]).output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{dir}");
    }
}

#[test]
fn the_workflow_compares_with_the_evidence_and_the_signers_that_were_named() {
    let test = Test::new();
    let text = test.ok("ci a --workflow --signers team/signers --evidence records").out;
    let steps: Vec<&str> = text.lines().filter(|line| line.contains("kernels ci a")).collect();
    assert_eq!(steps.len(), 2, "{text}");
    for step in steps {
        assert!(step.contains("--signers team/signers") && step.contains("--evidence records"), "{step}");
    }
    for option in ["--require-card", "--require-torch", "--junit j.xml", "--python python3"] {
        test.run(&format!("ci a --workflow {option}")).expect(2, &["--workflow"]);
    }
}

#[test]
fn the_workflow_is_for_any_branch_and_names_a_release_or_a_commit_of_the_program() {
    let test = Test::new();
    let workflow = |typed: &str| yaml(&test.run(&format!("ci a --workflow{typed}")).expect(0, &[]).out);
    let any = workflow("");
    assert_eq!(any["on"]["push"], "", "{any:#}");
    assert_eq!(any["env"]["KERNELS_FROM"], "${{ vars.KERNELS_FROM }}");
    let commit = "https://github.com/o/r@0123456789012345678901234567890123456789";
    for from in ["https://github.com/o/r@v1.2.3", commit] {
        assert_eq!(workflow(&format!(" --from {from}"))["env"]["KERNELS_FROM"], from);
    }
    for from in ["v1", "https://github.com/o/r", "https://x@a/b", "https://x@", "https://x@v1\n", "https://x@${{a}}"] {
        let ran = test.command().args(["ci", "--workflow", "--from", from]).output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{from}");
    }
    test.run("ci a --from https://github.com/o/r@v1").expect(2, &["--workflow"]);
    // A project for torch brings torch, any other does not; placeholders that somebody typed stay.
    for (src, torch) in [("[]", false), ("[\"x.cpp\"]", true)] {
        test.write("a/build.toml", format!("[torch]\nsrc = {src}\n"));
        let text = test.run("ci a @PINNED@ @TORCH@ --workflow").out;
        assert_eq!(text.contains("-m pip install"), torch, "{text}");
        assert_eq!(text.contains("--require-torch"), torch, "{text}");
        assert!(text.contains("kernels ci a '@PINNED@' '@TORCH@' --"), "{text}");
    }
}

#[test]
fn a_job_that_publishes_has_a_step_a_project_and_is_for_projects_that_can_be_published() {
    let test = Test::without_git();
    test.ok("init one --op blank --owner acme --no-git");
    test.ok("init two --op blank --no-git");
    test.run("ci one --publish").expect(2, &["--workflow"]);
    test.run("ci two --workflow --publish").expect(1, &["still `your-name/two`", "repo-id"]);
    test.run("ci nowhere --workflow --publish").expect(1, &["no project at nowhere"]);
    let toml = fs::read_to_string(test.at("two/build.toml")).unwrap();
    test.write("two/build.toml", toml.replace("your-name/", "other/"));
    let text = test.ok("ci one two --workflow --publish").out;
    let workflow = yaml(&text);
    let steps = workflow["jobs"]["publish"]["steps"].as_array().unwrap();
    let of = |name: &str| steps.iter().find(|step| step["run"].as_str().is_some_and(|run| run.contains(name))).unwrap();
    assert_eq!(of("publish one")["env"]["HF_OIDC_RESOURCE"], "kernels/acme/one");
    assert_eq!(of("publish two")["env"]["HF_OIDC_RESOURCE"], "kernels/other/two");
    assert!(of("publish two")["run"].as_str().unwrap().ends_with("--tag \"$GITHUB_REF_NAME\" --sign"));
    assert_eq!(of("build --torch two")["run"], "rm -rf two/build && kernels build --torch two");
    for action in ["sigstore/cosign-installer@", "actions/attest-build-provenance@"] {
        assert!(steps.iter().any(|step| step["uses"].as_str().is_some_and(|uses| uses.starts_with(action))), "{text}");
    }
    // No secret is named anywhere, and without --publish no job has an identity.
    assert!(!text.contains("secrets."), "{text}");
    assert!(!test.ok("ci one two --workflow").out.contains("id-token"));
    fs::rename(test.at("two"), test.at("it's")).unwrap();
    let ran = crate::support::Ran::of(test.command().args(["ci", "it's", "--workflow", "--publish"]));
    ran.expect(2, &["letters, digits"]);
}

/// Answers its version, and otherwise waits for a word that never comes.
const SLOW_NVCC: &str = r#"#!/bin/sh
case "$*" in
*--version*) echo "Cuda compilation tools, release 13.0, V13.0.88" ;;
*) : > "${0%/*}/begun"; read word < "${0%/*}/word" ;;
esac
"#;

#[test]
fn a_run_that_is_stopped_writes_what_was_checked_and_has_printed_it_into_a_pipe() {
    use std::io::{BufRead, BufReader};
    for (signal, json) in [("TERM", false), ("INT", true)] {
        let test = Test::new();
        let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let bin = test.root().join("cuda/bin");
        executable(&bin.join("nvcc"), SLOW_NVCC);
        assert!(Command::new("mkfifo").arg(bin.join("word")).status().unwrap().success());
        let mut command = test.command_with_signals();
        command.arg("ci").args(["rmsnorm", "rope"].map(|name| bundled.join(name)));
        command.args(["--junit", "junit.xml"]).args(json.then_some("--json"));
        command
            .env("CUDA_HOME", test.root().join("cuda"))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        if json {
            // Compilers run beside the first checks, which take a moment.
            wait_until("a compiler runs", || exists(bin.join("begun")));
            std::thread::sleep(std::time::Duration::from_secs(3));
        } else {
            // Each line comes as its check ends, while the build goes on.
            let first: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
            assert!(first[1].contains("read ") && first[2].contains("check "), "{first:?}");
        }
        let stop = ["-s", signal, &child.id().to_string()];
        assert!(Command::new("kill").args(stop).status().unwrap().success());
        let rest = lines.map(Result::unwrap).collect::<Vec<_>>().join("\n");
        let code = child.wait().unwrap().code();
        // Lets the compilers end.
        let _ = fs::OpenOptions::new().read(true).write(true).open(bin.join("word"));
        assert_eq!(code, Some(if json { 130 } else { 143 }), "{rest}");
        let junit = fs::read_to_string(test.project.join("junit.xml")).unwrap();
        let read = read_junit(&junit);
        assert_eq!(read.as_array().unwrap().len(), 1);
        assert!(junit.contains(&format!("stopped by SIG{signal}")) && junit.contains("not begun: "), "{junit}");
        if json {
            let all: Value = serde_json::from_str(&rest).unwrap();
            assert_eq!(all["ok"], false);
            assert_eq!(all["projects"][0]["checks"][0]["status"], "passed");
        }
    }
}

#[test]
fn a_run_that_is_stopped_before_its_first_project_is_read_is_a_failure() {
    let test = Test::without_git();
    test.ok("init one --op blank --no-git");
    // So many cases that reading them takes a while.
    let toml = fs::read_to_string(test.at("one/kernel.toml")).unwrap();
    let numbers = |to: u32| (1..to).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let many =
        format!("[[operation.verify]]\nname = \"many\"\nrows = [{}]\nwidth = [{}]\n\n", numbers(99), numbers(66));
    let at = toml.find("[[operation.verify]]").unwrap();
    test.write("one/kernel.toml", format!("{}{many}{}", &toml[..at], &toml[at..]));
    let mut command = test.command_with_signals();
    command.args(["ci", "one", "--json", "--junit", "junit.xml"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    // From when on it handles the signal.
    let status = format!("/proc/{}/status", child.id());
    let handles = || {
        let text = fs::read_to_string(&status).unwrap();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(caught, 16).unwrap() & (1 << 14) != 0
    };
    while !handles() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["ok"] == false && json["counts"]["failed"].as_u64() >= Some(1), "{json:#}");
    let junit = fs::read_to_string(test.project.join("junit.xml")).unwrap();
    assert!(junit.contains("<failure message=\"stopped by SIGTERM before it was done"), "{junit}");
    assert!(!junit.contains("\"-0"), "{junit}");
}

#[test]
fn a_report_of_nothing_took_no_negative_time() {
    assert!(junit::render(&[]).contains("time=\"0.000\""), "{}", junit::render(&[]));
}
