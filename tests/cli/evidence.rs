//! Evidence: what is recorded, what is refused, when it is stale, and the tables generated from it.
//! `UPDATE=1 cargo test --test cli evidence::` writes the pages' tables anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{generated, report, ssh_key};
use kernels::bench::{BenchReport, Residency};
use kernels::evidence::signature::{self, Signed};
use kernels::evidence::{self, Evidence, Freshness, Peers, Texts, form, page};
use kernels::gpu::Card;
use kernels::project::DType;
use kernels::verify::{Kind, VerifyReport};
use serde_json::Value;
use tempfile::TempDir;

/// Folders whose pages may have tables of evidence, besides the README.
const PAGES: [&str; 3] = ["docs/generated", "examples", "skills"];

/// Every file below a folder with this suffix, relative to the repository root.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let path = entry.unwrap().into_path();
        if path.is_file() && path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_tables_of_the_pages_are_those_of_the_evidence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md")];
    for folder in PAGES {
        pages.extend(files(&root.join(folder), ".md"));
    }
    let mut tables = 0;
    for page in pages {
        let there = fs::read_to_string(&page).unwrap();
        if there.contains("<!-- evidence:") {
            tables += 1;
            let rendered = page::render(&there, &root.join("evidence"))
                .unwrap_or_else(|error| panic!("{}: {error:#}", page.display()));
            generated(&page, &rendered, "cli evidence::");
        }
    }
    assert!(tables > 10, "the pages have {tables} tables");
}

#[test]
fn every_record_has_a_case_a_line() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in files(&root.join("evidence"), ".json") {
        let value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        generated(&path, &form::text(&value).unwrap(), "cli evidence::");
    }
}

fn texts<'a>(spec_digest: &'a str, source_digest: &'a str) -> Texts<'a> {
    Texts { spec_digest, source_digest }
}

fn record(dir: &Path) -> Vec<String> {
    evidence::record(dir, &report::bench(), &report::verify(), "code", texts("cases", "sources"))
        .unwrap()
        .into_iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_run_becomes_one_file_an_operation_that_can_be_read_back_and_compared_by_eye() {
    let root = TempDir::new().unwrap();
    let dir = root.path().join("new/evidence");
    assert_eq!(record(&dir), ["add_rms_norm-h100.json", "rms_norm-h100.json"]);
    let text = fs::read_to_string(dir.join("rms_norm-h100.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["format"], 2);
    assert_eq!(json["archs"], serde_json::json!([75, 80, 90]));
    assert_eq!(json["cases"].as_array().unwrap().len(), 5);
    let case = &json["cases"][0];
    for (figure, written) in [
        (&case["kernel"]["median"], "46.71"),
        (&case["kernel"]["p10"], "46.3"),
        (&case["copy"]["median"], "46.31"),
        // Sizes and counts are exact.
        (&case["values"]["rows"], "8192"),
        (&case["values"]["eps"], "1e-6"),
        (&case["bytes"], "134225920"),
        (&json["seed"], "18446744073709551557"),
        (&json["verification"]["worst"], "0.6123"),
        (&json["verification"]["elements"], "37037034"),
        (&json["card"]["peak_gbs"], "3352"),
        (&json["card"]["memory_bytes"], "85017624576"),
    ] {
        assert_eq!(figure.to_string(), written);
    }
    let evidence = Evidence::read(&dir.join("rms_norm-h100.json")).unwrap();
    assert_eq!(evidence.to_json().unwrap(), text);
    // Recording again replaces the file.
    assert_eq!(record(&dir).len(), 2);
    assert_eq!(Evidence::read_all(&dir).unwrap().len(), 2);
}

#[test]
fn what_is_wrong_or_not_comparable_is_not_recorded() {
    type Change = fn(&mut BenchReport, &mut VerifyReport);
    let cases: [(&str, Change); 11] = [
        ("element [0, 3]", |_, verify| {
            verify.findings = vec![report::finding(Kind::WrongValue, None, "sm_90")];
        }),
        ("element [0, 3]", |bench, _| {
            bench.findings = vec![report::finding(Kind::TooFast, None, "sm_90")];
        }),
        ("kernels toolchain install", |bench, _| {
            bench.compiler = "12.4.131".to_owned();
        }),
        ("12.4.131", |_, verify| {
            verify.compiler = "12.4.131".to_owned();
        }),
        ("the verification of other", |_, verify| {
            verify.project = "other".to_owned();
        }),
        ("NVIDIA A100", |_, verify| {
            verify.card = Card { name: "NVIDIA A100".to_owned(), ..report::card() };
        }),
        ("no case", |bench, _| bench.cases.clear()),
        ("compared no element", |_, verify| verify.paths.clear()),
        ("not a positive number", |bench, _| {
            bench.cases[2].copy.p90 = f64::NAN;
        }),
        ("no timed output", |bench, _| bench.cases[1].checked = 0),
        ("cannot be part of a file's name", |bench, _| {
            bench.cases[5].operation = "../up".to_owned();
        }),
    ];
    for (said, change) in cases {
        let root = TempDir::new().unwrap();
        let dir = root.path().join("evidence");
        let (mut bench, mut verify) = (report::bench(), report::verify());
        change(&mut bench, &mut verify);
        let error = evidence::record(&dir, &bench, &verify, "code", texts("cases", "sources")).unwrap_err();
        assert!(format!("{error:#}").contains(said), "{said}: {error:#}");
        assert!(!dir.exists(), "{said}: something was written");
    }
}

#[test]
fn evidence_of_another_project_is_not_overwritten() {
    let dir = TempDir::new().unwrap();
    record(dir.path());
    let before = fs::read_to_string(dir.path().join("add_rms_norm-h100.json")).unwrap();
    let (mut bench, mut verify) = (report::bench(), report::verify());
    bench.project = "other".to_owned();
    verify.project = "other".to_owned();
    let error = evidence::record(dir.path(), &bench, &verify, "code", texts("cases", "sources")).unwrap_err();
    assert!(format!("{error:#}").contains("project rmsnorm"), "{error:#}");
    let after = fs::read_to_string(dir.path().join("add_rms_norm-h100.json")).unwrap();
    assert_eq!(before, after);
}

#[test]
fn a_file_that_is_no_evidence_is_named() {
    let dir = TempDir::new().unwrap();
    record(dir.path());
    let good = fs::read_to_string(dir.path().join("rms_norm-h100.json")).unwrap();
    let later = good.replace("\"format\": 2", "\"format\": 3");
    let more = good.replace("\"format\": 2", "\"format\": 2, \"surprise\": 1");
    for (name, text, said) in [
        ("rms_norm-h100.json", "{", "not JSON"),
        ("rms_norm-h100.json", "{}", "its format is null"),
        ("rms_norm-h100.json", later.as_str(), "its format is 3"),
        ("rms_norm-h100.json", more.as_str(), "format 2"),
        ("rms_norm-a100.json", good.as_str(), "belongs in rms_norm-h100.json"),
    ] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join(name), text).unwrap();
        let error = Evidence::read_all(dir.path()).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(name) && error.contains(said), "{error}");
    }
}

#[test]
fn a_figure_that_is_not_that_of_its_rounds_is_an_error_and_so_is_a_digest_that_was_taken_out() {
    let dir = TempDir::new().unwrap();
    record(dir.path());
    let path = dir.path().join("rms_norm-h100.json");
    let good = fs::read_to_string(&path).unwrap();
    let without = |name: &str| {
        let mut value: Value = serde_json::from_str(&good).unwrap();
        value.as_object_mut().unwrap().shift_remove(name);
        value["cases"][0].as_object_mut().unwrap().shift_remove(name);
        value.to_string()
    };
    let hand = "changed by hand";
    for (text, said) in [
        (good.replacen("\"median\": 46.71", "\"median\": 40.71", 1), hand),
        (good.replacen("\"p10\": 46.3,", "\"p10\": 40.3,", 1), hand),
        (good.replacen("\"samples\": 30", "\"samples\": 3000", 1), hand),
        (without("rounds"), "has no rounds"),
        (without("source_digest"), "source_digest"),
    ] {
        assert_ne!(text, good);
        fs::write(&path, text).unwrap();
        let error = format!("{:#}", Evidence::read(&path).unwrap_err());
        assert!(error.contains(said) && error.contains("rms_norm-h100.json"), "{said}: {error}");
    }
    // Nor does a record pass as one of the form before rounds were kept.
    let mut value: Value = serde_json::from_str(&good).unwrap();
    value["format"] = 1.into();
    for case in value["cases"].as_array_mut().unwrap() {
        case.as_object_mut().unwrap().shift_remove("rounds");
    }
    fs::write(&path, value.to_string().replace("46.71", "40.71")).unwrap();
    let error = format!("{:#}", Evidence::read(&path).unwrap_err());
    assert!(error.contains("its format is 1"), "{error}");
}

#[test]
fn a_signature_is_of_one_record_by_one_of_the_signers() {
    let dir = TempDir::new().unwrap();
    record(dir.path());
    let path = dir.path().join("rms_norm-h100.json");
    let key = |name: &str| {
        let key = dir.path().join(name);
        let public = ssh_key(&key);
        (key, format!("{name}@example.org {public}"))
    };
    let ((ours, us), (theirs, _)) = (key("ours"), key("theirs"));
    let signers = dir.path().join("signers");
    fs::write(&signers, us).unwrap();
    let verify = || signature::verify(&path, Some(&signers)).map_err(|error| format!("{error:#}"));
    assert_eq!(signature::verify(&path, None).unwrap(), Signed::Not);
    assert!(verify().unwrap_err().contains("is not signed"));
    signature::sign(&path, &ours).unwrap();
    assert_eq!(signature::verify(&path, None).unwrap(), Signed::Unverified);
    assert_eq!(verify().unwrap(), Signed::By("ours@example.org".to_owned()));
    // Of another's key, and of a record that was changed since.
    signature::sign(&path, &theirs).unwrap();
    assert!(verify().unwrap_err().contains("not signed by anyone"));
    signature::sign(&path, &ours).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("3352", "3353", 1)).unwrap();
    assert!(verify().unwrap_err().contains("not signed by anyone"));
    // Made for another purpose.
    fs::remove_file(signature::path(&path)).unwrap();
    let other = Command::new("ssh-keygen").args(["-Y", "sign", "-q", "-n", "git", "-f"]).arg(&ours).arg(&path).status();
    assert!(other.unwrap().success());
    assert!(verify().is_err());
}

#[test]
fn evidence_is_stale_when_code_or_cases_are_others_and_missing_by_operation() {
    let dir = TempDir::new().unwrap();
    let operations = ["rms_norm", "new_one"].map(str::to_owned);
    record(dir.path());
    let standing = |digest: &str, cases: &str, sources: &str| {
        let mut asked = Vec::new();
        let standings = evidence::check(
            dir.path(),
            "rmsnorm",
            &operations,
            texts(cases, sources),
            Some(&mut |archs: &[u32]| {
                asked.push(archs.to_vec());
                Ok(digest.to_owned())
            }),
        )
        .unwrap();
        let told: Vec<(String, Freshness)> =
            standings.into_iter().map(|standing| (standing.operation, standing.freshness)).collect();
        (told, asked)
    };
    let stale = |what: &str| Freshness::Stale { what: what.to_owned() };
    let (told, asked) = standing("code", "cases", "sources");
    assert_eq!(
        told,
        [
            ("add_rms_norm".to_owned(), stale("rmsnorm has no operation add_rms_norm")),
            ("rms_norm".to_owned(), Freshness::Fresh),
            ("new_one".to_owned(), Freshness::Missing),
        ]
    );
    assert_eq!(asked, [vec![75, 80, 90]]);
    let (told, _) = standing("other code", "cases", "sources");
    assert_eq!(told[1].1, stale("the compiled device code is not the recorded one"));
    let (told, asked) = standing("code", "other cases", "sources");
    assert_eq!(told[1].1, stale("the operations, cases or budgets of kernel.toml are not the recorded ones"));
    assert!(asked.is_empty(), "compiled for nothing");
    // The choice of a kernel is host code: the device code is the same with another tuning table.
    let (told, asked) = standing("code", "cases", "other sources");
    assert_eq!(told[1].1, stale("the sources, flags or oracles are not the recorded ones, comments apart"));
    assert!(asked.is_empty(), "compiled for nothing");
    let all = evidence::check(dir.path(), "rmsnorm", &operations, texts("cases", "sources"), None).unwrap();
    assert_eq!(all[1].freshness, Freshness::Unknown);
    let none = evidence::check(&dir.path().join("no"), "rmsnorm", &operations, texts("", ""), None).unwrap();
    assert!(none.iter().all(|one| one.freshness == Freshness::Missing));
    assert_eq!(none.len(), 2);
}

const PEERS: &str = r#"{
  "format": 1, "card": "NVIDIA H100 80GB HBM3", "driver": "580.159.04", "torch": "2.11.0+cu130",
  "packages": {"quack": "0.6.5"},
  "rows": [
    {"operation": "rms_norm", "shape": {"rows": 8192, "width": 4096}, "dtype": "bf16", "mb": 134.2, "copy_us": 46.3,
     "times_us": {"kernels": 46.5, "compile": 47.6, "compile-max": 46.6, "blog": 82.5, "liger": null},
     "spread": {"kernels": [46.1, 47.0]}, "wrong": [], "sets": 5},
    {"operation": "rms_norm", "shape": {"rows": 8192, "width": 4096}, "dtype": "f16", "mb": 134.2, "copy_us": 46.3,
     "times_us": {"kernels": 46.5, "compile": 47.43, "compile-max": 23.0, "blog": 82.5}, "wrong": ["compile-max", "blog"]},
    {"operation": "rms_norm", "shape": {"rows": 8192, "width": 4096}, "dtype": "f32", "mb": 134.2, "copy_us": 46.3,
     "times_us": {"kernels": 1.0, "compile": 100.0}}
  ]
}"#;

#[test]
fn peers_are_compared_in_their_own_run_and_only_where_they_are_right_and_of_the_same_case() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("peers-h100.json"), PEERS).unwrap();
    let peers = Peers::of_card(dir.path(), "h100").unwrap().unwrap();
    assert!(Peers::of_card(dir.path(), "a100").unwrap().is_none());
    assert!(Evidence::read_all(dir.path()).unwrap().is_empty());
    let mut case = report::bench().cases.swap_remove(0);
    let row = peers.row(&case).unwrap();
    assert_eq!(row.times_faster(&["compile", "compile-max"]), Some(46.6 / 46.5));
    assert_eq!(row.times_faster(&["liger"]), None);
    // The bytes of the f32 row differ from those of the case.
    assert!(peers.row(&report::case("rms_norm", 8192, 4096, DType::F32, 91.0, 90.0)).is_none());
    case.case = "rows=8192 width=4096 weight=0 bf16".to_owned();
    assert!(peers.row(&case).is_some(), "weight is no value of this case");
    case.values.insert("weight".to_owned(), 0.0);
    assert!(peers.row(&case).is_none());
}

#[test]
fn a_page_s_blocks_are_rendered_and_the_rest_of_it_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let page = "before\n<!-- evidence:h100 rms_norm -->\nold\n<!-- /evidence -->\nbetween\r\n\
                <!-- evidence:h100 geglu -->\n<!-- /evidence -->\nafter";
    let empty = page::render(page, dir.path()).unwrap();
    assert!(empty.contains("Nothing is recorded of `rms_norm` yet"), "{empty}");

    record(dir.path());
    fs::write(dir.path().join("peers-h100.json"), PEERS).unwrap();
    let rendered = page::render(page, dir.path()).unwrap();
    assert_eq!(page::render(&rendered, dir.path()).unwrap(), rendered);
    assert_eq!(page::render(&empty, dir.path()).unwrap(), rendered);
    assert!(rendered.starts_with("before\n<!-- evidence:h100 rms_norm -->\n\n| operation |"), "{rendered}");
    assert!(rendered.contains("<!-- /evidence -->\nbetween\r\n"), "{rendered}");
    assert!(rendered.ends_with("<!-- /evidence -->\nafter"), "{rendered}");
    assert!(!rendered.contains("old"));
    for row in [
        "| rms_norm | Qwen3-8B: rows=8192 width=4096 | bf16 | 46.7 (46.3–47.7) | 99.1 | 1.00 | 1.77 |",
        "| rms_norm | Qwen3-8B: rows=8192 width=4096 | f16 | 46.6 (46.2–47.6) | 99.4 | 1.02 | — |",
        "| rms_norm | Qwen3-8B: rows=128 width=4096, hot | bf16 | 1.61 (1.60–1.65) | 111.8 | — | — |",
        "torch 2.11.0+cu130",
        "Remark: clocks were held down by power for 3 % of the time.",
        "Nothing is recorded of `geglu` yet",
    ] {
        assert!(rendered.contains(row), "{row}\n{rendered}");
    }
    assert!(!rendered.contains("add_rms_norm"), "another operation's rows");
    assert!(report::bench().cases[4].residency == Residency::Hot);

    for (page, said) in [
        ("a\n<!-- evidence:h100 x -->\n", "line 2"),
        ("<!-- /evidence -->", "closes no block"),
        ("<!-- evidence:summary -->", "names no card"),
        (
            "<!-- evidence:h100 x -->\n<!-- evidence:h100 y -->\n<!-- /evidence -->",
            "line 2: the evidence block of line 1",
        ),
    ] {
        let error = page::render(page, dir.path()).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// Rows with the case's values; in one, a peer computes another function.
const OTHER_PEERS: &str = r#"{
  "format": 1, "card": "NVIDIA H100 80GB HBM3", "driver": "580.159.04", "torch": "2.11.0+cu130",
  "rows": [
    {"operation": "rms_norm", "case": "Qwen3-8B: rows=8192 width=4096 bf16", "shape": {"rows": 8192, "width": 4096, "eps": 1e-6},
     "dtype": "bf16", "mb": 134.2, "copy_us": 46.3, "times_us": {"kernels": 46.5, "compile": 93.0, "liger": 69.75, "blog": 23.25},
     "wrong": [], "other": {"blog": "takes half the row"}, "skipped": {"quack": "not there"}},
    {"operation": "rms_norm", "shape": {"rows": 128, "width": 4096, "eps": 1e-6}, "dtype": "bf16", "mb": 2.1, "copy_us": 2.2,
     "times_us": {"kernels": 2.5, "torch": 1.0, "compile-max": 2.75}, "wrong": ["torch"]},
    {"operation": "add_rms_norm", "shape": {"rows": 8192, "width": 4096, "eps": 1e-5}, "dtype": "bf16", "mb": 134.2,
     "copy_us": 90.0, "times_us": {"kernels": 1.0, "compile": 9.0}}
  ]
}"#;

#[test]
fn the_summary_has_each_operation_s_smallest_and_large_cases_beside_the_best_of_those_that_do_the_same() {
    let dir = TempDir::new().unwrap();
    let page = "<!-- evidence:h100 summary -->\n<!-- /evidence -->\n<!-- evidence:h100 all -->\n<!-- /evidence -->\n";
    let empty = page::render(page, dir.path()).unwrap();
    assert_eq!(empty.matches("Nothing is recorded yet").count(), 2, "{empty}");
    record(dir.path());
    let alone = page::render(page, dir.path()).unwrap();
    assert!(alone.contains("no peer was timed on this card"), "{alone}");
    fs::write(dir.path().join("peers-h100.json"), OTHER_PEERS).unwrap();
    let rendered = page::render(page, dir.path()).unwrap();
    assert_eq!(page::render(&rendered, dir.path()).unwrap(), rendered);
    let (summary, all) = rendered.split_once("<!-- evidence:h100 all -->").unwrap();
    let rows: Vec<&str> = summary.lines().filter(|line| line.contains("rms_norm |")).collect();
    // Neither f16, f32 nor hot cases; a peer's row with another eps belongs to another case.
    assert_eq!(
        rows,
        [
            "| add_rms_norm | Qwen3-8B: rows=8192 width=4096 | 91.8 | 98.4 | — | — | — |",
            "| rms_norm | Qwen3-8B: rows=128 width=4096 | 2.51 | 87.7 | — | 1.10 | torch.compile max-autotune, 1.10 |",
            "| rms_norm | Qwen3-8B: rows=8192 width=4096 | 46.7 | 99.1 | 0.50† | 2.00 | Liger, 1.50 |",
        ]
    );
    assert!(summary.contains("† the blog's kernel computes something else: it takes half the row."), "{summary}");
    for said in [
        "\n## `add_rms_norm`\n\n| operation |",
        "\n\n## `rms_norm`\n\n| operation |",
        "| rms_norm | Qwen3-8B: rows=8192 width=4096 | bf16 | 46.7 (46.3–47.7) | 99.1 | 2.00 | 0.50† |",
        "| rms_norm | Qwen3-8B: rows=128 width=4096, hot | bf16 | 1.61 (1.60–1.65) | 111.8 | — | — |",
    ] {
        assert!(all.contains(said), "{said}\n{all}");
    }
}
