//! `kernels bench DIR --e2e`: what is asked of a project's script, what is made of its result, and what is refused. The
//! scripts here are such as a user may write; those of the examples are tried on the CPU where a Python has torch.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::support::{Ran, Test, root, write};
use kernels::evidence::{EndToEndEvidence, Freshness, page};
use serde_json::{Value, json};

fn contender(name: &str, median: f64) -> Value {
    json!({
        "name": name,
        "time_ms": {"median": median, "p10": median * 0.99, "p90": median * 1.01, "min": median * 0.98, "samples": 20},
        "first_call_s": 1.25, "peak_bytes": 8_u64 << 30, "own_bytes": 1024,
        "profile": {
            "launches": 900.0, "busy_ms": median * 0.9, "host_bound": 0.1,
            "categories_ms": {"gemm": median * 0.6, "norm": median * 0.3, "idle": median * 0.1},
            "largest": [["nvjet_tst", 12.345_678, 84.0]],
        },
        "errors": {"of_fp32": 0.012_345_678, "of_eager": 0.0}, "wrong": null,
    })
}

/// The result of a successful script.
fn result() -> Value {
    json!({
        "format": 1, "name": "my_model", "title": "My model", "finished": true, "smoke": false, "partial": null,
        "card": {"name": "NVIDIA H100 80GB HBM3", "driver": "580.1", "capability": "9.0", "memory_bytes": 85_017_624_576_u64},
        "versions": {"python": "3.12.1", "torch": "2.11.0", "diffusers": "0.42.0"},
        "model": {"config_name": "2b", "weights": "random", "dtype": "bfloat16"},
        "kernel": {"from": "build", "id": "_x_cuda_1234567", "variant": "torch-stable-abi211-cu130-x86_64-linux"},
        "compile_mode": "default", "rounds": 20, "sources": ["../shared.py"],
        "cases": [{
            "name": "step", "label": "step, batch 2", "per": "step", "note": null,
            "contenders": [
                contender("eager", 74.612_345), contender("kernels", 42.0), contender("compile", 46.7), contender("both", 41.0),
            ],
        }],
        "skipped": [],
    })
}

/// A project whose script writes `result` and then runs `after`.
struct Project {
    test: Test,
}

impl Project {
    fn new(result: &Value, after: &str) -> Self {
        let project = Self { test: Test::new() };
        write(&project.dir().join("integration/my_kernels/integration.py"), "def optimize(model):\n    return model\n");
        write(&project.dir().join("kernel_src/norm.cu"), "int a;\n");
        write(&project.dir().join("tests/test_it.py"), "");
        write(&project.test.project.join("shared.py"), "A = 1\n");
        // The program looks for torch but never imports it; this script does not need it.
        write(&project.test.root().join("site/torch/__init__.py"), "");
        project.script(result, after);
        project
    }

    fn dir(&self) -> PathBuf {
        self.test.project.join("model")
    }

    fn script(&self, result: &Value, after: &str) {
        let text = format!(
            "import json, sys\nout = sys.argv[sys.argv.index('--out') + 1]\n\
             print('table for people'); print('step 1 of 1', file=sys.stderr)\n\
             json.dump(json.loads({:?}), open(out, 'w'))\n{after}\n",
            result.to_string()
        );
        write(&self.dir().join("benchmark_e2e.py"), text);
    }

    /// The script reads its answer from a file, so that the sources and their digest do not change.
    fn answers(&self, result: &Value) {
        let path = self.test.root().join("answer.json");
        write(&path, result.to_string());
        let text = format!(
            "import shutil, sys\nshutil.copy({:?}, sys.argv[sys.argv.index('--out') + 1])\n",
            path.to_str().unwrap()
        );
        write(&self.dir().join("benchmark_e2e.py"), text);
    }

    fn run(&self, typed: &str) -> Ran {
        let mut command = self.test.command();
        command.env("PYTHONPATH", self.test.root().join("site"));
        command.env("TMPDIR", self.test.root()); // where what cannot be recorded is kept
        Ran::of(command.args(typed.split(' ')))
    }

    fn evidence(&self) -> PathBuf {
        self.test.project.join("evidence")
    }
}

#[test]
fn a_script_s_result_is_shown_exported_and_recorded() {
    let project = Project::new(&result(), "open('given', 'w').write(' '.join(sys.argv[1:]))");
    let ran = project.run(
        "bench model --e2e --export out.json --export out.md --export out.svg --record --rounds 7 -- --seconds 60",
    );
    assert_eq!(ran.code, 0, "{ran:#?}");
    let given = fs::read_to_string(project.test.project.join("given")).unwrap();
    assert!(given.starts_with("--rounds 7 --seconds 60 --out "), "{given}");
    for said in ["My model", "NVIDIA H100 80GB HBM3", "1.78", "74.6 (73.9–75.4)", "8.00", "900"] {
        assert!(ran.out.contains(said), "{said}: {}", ran.out);
    }
    assert!(ran.err.contains("step 1 of 1"), "{}", ran.err);
    assert!(!ran.out.contains("table for people"), "{}", ran.out);
    let at = |name: &str| fs::read_to_string(project.test.project.join(name)).unwrap();
    let exported: Value = serde_json::from_str(&at("out.json")).unwrap();
    assert_eq!(exported["cases"][0]["contenders"][0]["time_ms"], result()["cases"][0]["contenders"][0]["time_ms"]);
    assert!(
        at("out.md")
            .contains("| step, batch 2 | 74.6 | 42.0 | 46.7 | 41.0 | 1.78 | 1.11 | 1.14 | 8.00, 8.00 | 900, 900 |")
    );
    // One bar per contender, each with three segments.
    assert_eq!(at("out.svg").matches("<rect class=\"norm\"").count(), 5);
    assert!(at("out.svg").contains("74.6 ms"));

    let path = project.evidence().join("e2e-my_model-h100.json");
    let evidence = EndToEndEvidence::read(&path).unwrap();
    assert_eq!(evidence.folder, "model");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(evidence.to_json().unwrap(), text);
    assert!(text.contains("74.61") && !text.contains("74.612"), "{text}");
    assert!(path.with_extension("svg").is_file());
    // The record replaces itself.
    assert_eq!(project.run("bench model --e2e --record --quiet").code, 0);
}

#[test]
fn graphs_have_a_column_where_they_ran() {
    let mut all = result();
    all["cases"][0]["contenders"].as_array_mut().unwrap().insert(2, contender("graphs", 30.0));
    let project = Project::new(&all, "");
    let ran = project.run("bench model --e2e --export out.md");
    assert_eq!(ran.code, 0, "{ran:#?}");
    let text = fs::read_to_string(project.test.project.join("out.md")).unwrap();
    assert!(text.contains("| kernels, ms | graphs, ms | compile, ms |"), "{text}");
    assert!(
        text.contains("| step, batch 2 | 74.6 | 42.0 | 30.0 | 46.7 | 41.0 | 1.78 | 1.11 | 1.56 | 1.14 |"),
        "{text}"
    );
}

#[test]
fn json_has_the_whole_result_and_nothing_else_on_stdout() {
    let project = Project::new(&result(), "");
    let ran = project.run("bench model --e2e --json");
    assert_eq!(ran.code, 0, "{ran:#?}");
    let said = ran.json();
    assert_eq!(said["result"]["cases"][0]["contenders"][1]["time_ms"]["median"], 42.0);
    assert_eq!(said["findings"], json!([]));
    assert_eq!(ran.err, "");
}

#[test]
fn evidence_is_stale_when_a_source_changed_and_neither_a_comment_nor_a_test_is_one() {
    let project = Project::new(&result(), "");
    assert_eq!(project.run("bench model --e2e --record").code, 0);
    let path = project.evidence().join("e2e-my_model-h100.json");
    let fresh = || EndToEndEvidence::read(&path).unwrap().freshness(&project.test.project);
    assert_eq!(fresh(), Freshness::Fresh);
    let dir = project.dir();
    write(&dir.join("kernel_src/norm.cu"), "// a comment\nint  a;\n");
    write(&dir.join("integration/my_kernels/integration.py"), "# why\n\ndef optimize(model):\n    return model\n");
    write(&dir.join("tests/test_it.py"), "assert True\n");
    write(&dir.join("build/torch-x/made.py"), "a = 1\n");
    assert_eq!(fresh(), Freshness::Fresh);
    for (name, text) in [
        ("model/kernel_src/norm.cu", "int b;\n"),
        ("model/integration/my_kernels/integration.py", "def optimize(model):\n  return model\n"),
        ("model/integration/my_kernels/more.py", "a = 1\n"),
        ("shared.py", "A = 2\n"),
        ("model/benchmark_e2e.py", "a = 1\n"),
    ] {
        let path = project.test.project.join(name);
        let before = fs::read_to_string(&path).ok();
        write(&path, text);
        assert!(matches!(fresh(), Freshness::Stale { .. }), "{name}");
        match before {
            Some(before) => write(&path, before),
            None => fs::remove_file(&path).unwrap(),
        }
        assert_eq!(fresh(), Freshness::Fresh, "{name}");
    }
    fs::remove_file(project.test.project.join("shared.py")).unwrap();
    let Freshness::Stale { what } = fresh() else { panic!("a source that is gone") };
    assert!(what.contains("shared.py"), "{what}");
}

/// Whatever a compiler or Python reads counts, where it lies in a folder of any name, and each of its bytes.
#[test]
fn evidence_of_a_model_is_stale_when_anything_changed_that_is_read() {
    let project = Project::new(&result(), "");
    let dir = project.dir();
    let cuda = "SOURCE = r\"\"\"\n#define N 1\n\nint a;\n\"\"\"\n";
    let oneline = "TEXT = 'a\\\n# one'  # '\"\"\"\n";
    let nested = "TEXT = f'''{1}\n# one\n'''\n";
    let latin: &[u8] = b"# coding: latin-1\nA = '\xe9'\n";
    let kept: [(&str, &[u8], &[u8]); 15] = [
        ("kernel_src/tests/a.cuh", b"int a;\n", b"int b;\n"),
        ("kernel_src/build/benchmarks/a.cuh", b"int a;\n", b"int b;\n"),
        ("tests/a.cuh", b"int a;\n", b"int b;\n"),
        ("kernel_src/a.hxx", b"int a;\n", b"int b;\n"),
        ("kernel_src/a.inc", b"int a;\n", b"int b;\n"),
        ("kernel_src/raw.cu", b"#if '\xfe' == '\\377'\n", b"#if '\xff' == '\\377'\n"),
        ("integration/pkg/build/a.py", b"A = 1\n", b"A = 2\n"),
        ("integration/latin.py", latin, b"# coding: latin-1\nA = '\xe8'\n"),
        ("integration/coding.py", "# coding: latin-1\nA = '\u{e9}'\n".as_bytes(), "#\nA = '\u{e9}'\n".as_bytes()),
        ("integration/cuda.py", cuda.as_bytes(), b"SOURCE = r\"\"\"\n#define N 2\n\nint a;\n\"\"\"\n"),
        ("integration/blank.py", cuda.as_bytes(), b"SOURCE = r\"\"\"\n#define N 1\nint a;\n\"\"\"\n"),
        ("integration/line.py", oneline.as_bytes(), b"TEXT = 'a\\\n# two'  # '\"\"\"\n"),
        ("integration/nested.py", nested.as_bytes(), b"TEXT = f'''{1}\n# two\n'''\n"),
        ("integration/doc.py", b"'''\n# one\n'''\n", b"'''\n# two\n'''\n"),
        ("integration/return.py", b"# a\rA = 1\n", b"# a\rA = 2\n"),
    ];
    for (name, text, _) in &kept {
        write(&dir.join(name), text);
    }
    let aside = project.test.root().join("aside");
    write(&aside.join("a.h"), "int a;\n");
    write(&aside.join("a.py"), "A = 1\n");
    for name in ["a.h", "a.py"] {
        std::os::unix::fs::symlink(aside.join(name), dir.join("kernel_src").join(name)).unwrap();
    }
    assert_eq!(project.run("bench model --e2e --record").code, 0);
    let path = project.evidence().join("e2e-my_model-h100.json");
    let fresh = || EndToEndEvidence::read(&path).unwrap().freshness(&project.test.project);
    for (name, before, after) in &kept {
        write(&dir.join(name), after);
        assert!(matches!(fresh(), Freshness::Stale { .. }), "{name}");
        write(&dir.join(name), before);
        assert_eq!(fresh(), Freshness::Fresh, "{name}");
    }
    write(&dir.join("integration/line.py"), format!("# one\n{oneline}\n  # \"\"\"\n"));
    write(&dir.join("integration/pyproject.toml"), "");
    write(&dir.join("integration/tests/test_it.py"), "A = 1\n");
    assert_eq!(fresh(), Freshness::Fresh);
    for (name, text, before) in [("a.h", "int b;\n", "int a;\n"), ("a.py", "A = 2\n", "A = 1\n")] {
        write(&aside.join(name), text);
        assert!(matches!(fresh(), Freshness::Stale { .. }), "{name}");
        write(&aside.join(name), before);
        assert_eq!(fresh(), Freshness::Fresh, "{name}");
    }
    // Two names are two files.
    let name = |byte: u8| dir.join(std::ffi::OsStr::from_bytes(&[byte, b'.', b'h']));
    write(&name(0xfe), "int a;\n");
    assert!(matches!(fresh(), Freshness::Stale { .. }));
    assert_eq!(project.run("bench model --e2e --record").code, 0);
    fs::rename(name(0xfe), name(0xff)).unwrap();
    assert!(matches!(fresh(), Freshness::Stale { .. }));
}

#[test]
fn ci_says_that_a_model_s_evidence_is_stale_and_how_to_record_it() {
    let project = Project::new(&result(), "");
    let bundled = root().join("kernels/rmsnorm");
    for name in ["build.toml", "kernel.toml"] {
        fs::copy(bundled.join(name), project.dir().join(name)).unwrap();
    }
    for (path, text) in crate::support::snapshot(&bundled) {
        if path.ends_with(".cu")
            || path.ends_with(".cuh")
            || path.ends_with(".h")
            || path.ends_with(".py")
            || path.ends_with(".cpp")
        {
            write(&project.dir().join(path), text);
        }
    }
    assert_eq!(project.run("bench model --e2e --record").code, 0);
    let said = |status: &str| {
        let ran = project.run("ci model --json");
        let json = ran.json();
        let checks = json["projects"][0]["checks"].as_array().unwrap().clone();
        let name = "e2e-my_model on NVIDIA H100 80GB HBM3";
        let found = checks.iter().find(|check| check["name"] == name);
        let found = found.unwrap_or_else(|| panic!("{json:#}"));
        assert_eq!(found["status"], status, "{found:#}");
        found.to_string()
    };
    said("passed");
    write(&project.dir().join("integration/my_kernels/integration.py"), "def optimize(model):\n    pass\n");
    assert!(said("failed").contains("kernels bench model --e2e --record"));
}

/// A run of some cases updates a record only if everything else in it is the same.
#[test]
fn some_cases_complete_a_record() {
    let mut all = result();
    all["skipped"] = json!([{"case": "loop", "contender": "eager", "why": "the budget of --seconds was spent"}]);
    let project = Project::new(&all, "");
    project.answers(&all);
    assert_eq!(project.run("bench model --e2e --record").code, 0);
    let path = project.evidence().join("e2e-my_model-h100.json");
    let first: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();

    let mut more = result();
    more["partial"] = json!("--cases");
    more["cases"][0]["name"] = json!("loop");
    let other: [(&str, Change); 4] = [
        ("card or driver", |all| all["card"]["driver"] = json!("1.2")),
        ("versions", |all| all["versions"]["torch"] = json!("1.0")),
        ("model", |all| all["model"]["dtype"] = json!("f64")),
        ("kernel", |all| all["kernel"]["id"] = json!("_another")),
    ];
    for (what, change) in other {
        let mut wrong = more.clone();
        change(&mut wrong);
        project.answers(&wrong);
        let ran = project.run("bench model --e2e --record");
        assert_eq!(ran.code, 1, "{what}: {ran:#?}");
        let said = format!("would complete has another {what}");
        assert!(ran.err.contains(&said), "{what}: {ran:#?}");
        // Minutes of a card are not lost.
        let kept = ran.err.split("what was timed is in ").nth(1).expect(&ran.err).trim();
        let timed: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
        assert_eq!(timed["cases"][0]["name"], "loop", "{what}: {timed:#}");
        fs::remove_file(kept).unwrap();
        let now: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(now, first, "{what}");
    }

    project.answers(&more);
    let ran = project.run("bench model --e2e --record");
    assert_eq!(ran.code, 0, "{ran:#?}");
    let now: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let cases = now["result"]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2, "{now:#}");
    assert_eq!(cases[0], first["result"]["cases"][0]);
    assert_eq!(cases[1]["note"], "timed in a later run than the other cases");
    assert_eq!(now["result"]["skipped"], json!([]));
    assert_eq!(now["result"]["partial"], Value::Null);

    // A second run replaces its own cases.
    assert_eq!(project.run("bench model --e2e --record").code, 0);
    let again: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(again, now);
}

/// What would not be recorded in the end is refused before the script runs for minutes.
#[test]
fn some_cases_without_a_record_to_complete_are_refused_before_the_script_is_run() {
    let project = Project::new(&result(), "open('ran', 'w').write('')");
    let ran = |typed: &str| {
        let _ = fs::remove_file(project.test.project.join("ran"));
        let ran = project.run(typed);
        (ran, project.test.project.join("ran").exists())
    };
    for cases in ["--cases loop", "--cases=loop"] {
        let (said, script) = ran(&format!("bench model --e2e --record -- {cases}"));
        assert_eq!((said.code, script), (1, false), "{said:#?}");
        assert!(said.err.contains("--cases completes a record, and there is none of model"), "{said:#?}");
        assert!(said.err.contains("leave it out"), "{said:#?}");
    }
    assert!(ran("bench model --e2e -- --cases loop").1, "without a record they are timed");
    assert!(ran("bench model --e2e --record").1);
    // With a record of the same sources they are timed.
    assert!(ran("bench model --e2e --record -- --cases loop").1);
    write(&project.test.project.join("shared.py"), "A = 2\n");
    let (said, script) = ran("bench model --e2e --record -- --cases loop");
    assert_eq!((said.code, script), (1, false), "{said:#?}");
    assert!(said.err.contains("e2e-my_model-h100.json, which is of other sources; leave it out"), "{said:#?}");
}

#[test]
fn a_folder_from_which_the_sources_cannot_be_found_is_refused_before_the_script_is_run() {
    let project = Project::new(&result(), "open('ran', 'w').write('')");
    let elsewhere = project.test.root().join("elsewhere/evidence");
    let ran = project.run(&format!("bench model --e2e --record --evidence {}", elsewhere.display()));
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(ran.err.contains("nothing is recorded") && ran.err.contains("does not lie in"), "{ran:#?}");
    assert!(!elsewhere.exists() && !project.test.project.join("ran").exists());
    // Without a record it may lie anywhere.
    assert_eq!(project.run("bench model --e2e").code, 0);
    assert!(project.test.project.join("ran").exists());
}

type Change = fn(&mut Value);

#[test]
fn what_is_no_whole_and_right_result_is_not_recorded() {
    let cases: [(&str, i32, Change); 8] = [
        ("--smoke times a small model", 1, |all| {
            all["smoke"] = json!(true);
        }),
        ("leave out --cases, --contenders", 1, |all| {
            all["partial"] = json!("--cases, --contenders");
        }),
        ("--cases completes a record, and there is no", 1, |all| {
            all["partial"] = json!("--cases");
        }),
        ("the script names no card", 1, |all| {
            all["card"] = Value::Null;
        }),
        ("kernels: the result is wrong: it is not finite", 1, |all| {
            let one = &mut all["cases"][0]["contenders"][1];
            one["wrong"] = json!("it is not finite");
            one["time_ms"] = Value::Null;
        }),
        ("step, both failed: no memory", 1, |all| {
            all["skipped"] = json!([{"case": "step", "contender": "both", "why": "no memory", "failed": true}]);
        }),
        ("kernels was not timed", 1, |all| {
            all["cases"][0]["contenders"].as_array_mut().unwrap().remove(1);
        }),
        ("does not exist", 1, |all| {
            all["sources"] = json!(["../gone.py"]);
        }),
    ];
    for (said, code, change) in cases {
        let mut all = result();
        change(&mut all);
        let project = Project::new(&all, "");
        let ran = project.run("bench model --e2e --record");
        assert_eq!(ran.code, code, "{said}: {ran:#?}");
        assert!(ran.err.contains(said), "{said}: {ran:#?}");
        assert!(!project.evidence().exists(), "{said}: something was written");
    }
    // An exceeded budget and a failure of torch.compile are reported and recorded.
    let mut all = result();
    all["skipped"] = json!([
        {"case": "loop", "contender": "eager", "why": "the budget of --seconds was spent", "failed": false},
        {"case": "step", "contender": "compile", "why": "InductorError: it", "failed": true},
    ]);
    all["cases"][0]["contenders"].as_array_mut().unwrap().remove(2);
    let project = Project::new(&all, "sys.exit(1)");
    let ran = project.run("bench model --e2e --record");
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(ran.out.contains("loop, not timed: eager: the budget"), "{}", ran.out);
    assert!(ran.out.contains("step, compile failed: InductorError: it"), "{}", ran.out);
    assert!(project.evidence().join("e2e-my_model-h100.json").is_file());
}

#[test]
fn a_result_that_is_broken_is_named_with_what_is_wrong_in_it() {
    let cases: [(&str, Change); 8] = [
        ("reads `\"format\": 1`, and there is 2", |all| {
            all["format"] = json!(2);
        }),
        ("unknown field `surprise`", |all| all["surprise"] = json!(1)),
        ("missing field `title`", |all| {
            all.as_object_mut().unwrap().remove("title");
        }),
        ("cannot be part of a file's name", |all| {
            all["name"] = json!("../up");
        }),
        ("not a positive number", |all| {
            all["cases"][0]["contenders"][0]["time_ms"]["min"] = json!(-1.0);
        }),
        ("percentiles that do not rise", |all| {
            all["cases"][0]["contenders"][0]["time_ms"]["p90"] = json!(1.0);
        }),
        ("has a time, and its result is wrong: off", |all| {
            all["cases"][0]["contenders"][0]["wrong"] = json!("off");
        }),
        ("did not finish", |all| {
            all["finished"] = json!(false);
        }),
    ];
    for (said, change) in cases {
        let mut all = result();
        change(&mut all);
        let project = Project::new(&all, "");
        let ran = project.run("bench model --e2e --record");
        assert_eq!(ran.code, 1, "{said}: {ran:#?}");
        assert!(ran.err.contains(said) && ran.err.contains("benchmark_e2e.py"), "{said}: {ran:#?}");
        assert!(!project.evidence().exists(), "{said}");
    }
    // An interrupt of both ends the script; what it had timed is shown and exported, and not recorded.
    let mut all = result();
    all["finished"] = json!(false);
    let project = Project::new(&all, "import os, signal\nos.kill(os.getppid(), signal.SIGINT)\nsys.exit(130)");
    let ran = project.run("bench model --e2e --record --export part.json --export part.md");
    assert!(ran.code == 1 && ran.err.contains("did not finish (exit status: 130) after"), "{ran:#?}");
    assert!(ran.out.contains("My model") && !project.evidence().exists(), "{ran:#?}");
    let part: Value =
        serde_json::from_str(&fs::read_to_string(project.test.project.join("part.json")).unwrap()).unwrap();
    let time = |all: &Value| all["cases"][0]["contenders"][1]["time_ms"].clone();
    assert_eq!((time(&part), &part["finished"]), (time(&all), &json!(false)));
    let project = Project::new(&result(), "open(out, 'w').write('{')");
    let ran = project.run("bench model --e2e");
    assert!(ran.code == 1 && ran.err.contains("is not JSON"), "{ran:#?}");
    let project = Project::new(&result(), "sys.exit('and then this')");
    let ran = project.run("bench model --e2e --quiet");
    assert!(ran.code == 1 && ran.err.contains("does not say why") && ran.err.contains("and then this"), "{ran:#?}");
}

#[test]
fn what_is_missing_is_named_with_the_next_step() {
    let test = Test::new();
    write(&test.project.join("model/build.toml"), "");
    let ran = test.run("bench model --e2e");
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(
        ran.err.contains("there is no model/benchmark_e2e.py") && ran.err.contains("docs/end-to-end.md"),
        "{ran:#?}"
    );
    let project = Project::new(&result(), "");
    let ran = project.run("bench model --e2e --python ./no-such-python");
    assert!(ran.code == 1 && ran.err.contains("--e2e: cannot start ./no-such-python"), "{ran:#?}");
    // A script reports a missing GPU or kernel itself.
    write(
        &project.dir().join("benchmark_e2e.py"),
        "import sys\nsys.exit('there is no build: kernels build --torch model')\n",
    );
    for flags in ["", " --quiet", " --json"] {
        let ran = project.run(&format!("bench model --e2e{flags}"));
        assert_eq!(ran.code, 1, "{ran:#?}");
        assert!(ran.err.contains("wrote no result") && ran.err.contains("kernels build --torch model"), "{ran:#?}");
    }
}

#[test]
fn flags_that_do_not_go_with_it_are_refused() {
    let project = Project::new(&result(), "");
    for typed in [
        "--filter x",
        "--dtype bf16",
        "--shape rows=1",
        "--seed 1",
        "--device 0",
        "--against torch",
        "--export out.csv",
    ] {
        let ran = project.run(&format!("bench model --e2e {typed}"));
        assert_eq!(ran.code, 2, "{typed}: {ran:#?}");
        let flag = typed.split(' ').next().unwrap();
        assert!(ran.err.contains(flag), "{typed}: {ran:#?}");
    }
    for typed in ["bench model -- --smoke", "bench model --python python3"] {
        let ran = project.run(typed);
        assert_eq!(ran.code, 2, "{typed}: {ran:#?}");
        assert!(ran.err.contains("--e2e"), "{typed}: {ran:#?}");
    }
}

#[test]
fn a_page_s_block_of_a_model_is_rendered_from_its_record() {
    let project = Project::new(&result(), "");
    let page = "before\n<!-- evidence:h100 e2e-my_model -->\nold\n<!-- /evidence -->\nafter\n";
    let empty = page::render(page, &project.evidence()).unwrap();
    assert!(empty.contains("Nothing is recorded of `e2e-my_model` yet"), "{empty}");
    assert_eq!(project.run("bench model --e2e --record").code, 0);
    let rendered = page::render(page, &project.evidence()).unwrap();
    assert_eq!(page::render(&rendered, &project.evidence()).unwrap(), rendered);
    assert!(rendered.starts_with("before\n<!-- evidence:h100 e2e-my_model -->\n\n| | eager, ms |"), "{rendered}");
    assert!(rendered.ends_with("<!-- /evidence -->\nafter\n") && !rendered.contains("old"), "{rendered}");
    for said in [
        "| step, batch 2 | 74.6 | 42.0 | 46.7 | 41.0 | 1.78 | 1.11 | 1.14 |",
        "| step, batch 2 | eager | 44.8 | 0.00 | 22.4 |",
        "My model (2b), random weights, bfloat16; NVIDIA H100 80GB HBM3, driver 580.1; torch 2.11.0, diffusers 0.42.0.",
        "eager 1.2e-2, kernels 1.2e-2",
    ] {
        assert!(rendered.contains(said), "{said}\n{rendered}");
    }
    // Tables of operations do not contain it.
    let other = page::render("<!-- evidence:h100 summary -->\n<!-- /evidence -->\n", &project.evidence());
    assert!(other.unwrap().contains("Nothing is recorded yet"));
}

/// The records of this repository match the code, and the charts match the records.
#[test]
fn recorded_models_are_fresh_and_drawn_as_recorded() {
    let mut wrong = Vec::new();
    let pending = crate::support::pending::pending();
    for (path, evidence) in EndToEndEvidence::read_all(&root().join("evidence")).unwrap() {
        let shown = path.file_name().unwrap().to_string_lossy().into_owned();
        let why = pending.get(&crate::support::pending::stem(&path));
        match (evidence.freshness(root()), why) {
            (Freshness::Stale { .. }, Some(why)) => println!("not run: {shown} is stale: {why}"),
            (Freshness::Stale { what }, None) => wrong
                .push(format!("{shown} is stale: {what}; on a card: kernels bench {} --e2e --record", evidence.folder)),
            (_, Some(_)) => wrong.push(format!("evidence/pending.toml names {shown}, which is fresh")),
            (_, None) => {}
        }
        let picture = path.with_extension("svg");
        let drawn = kernels::report::end_to_end::chart(&evidence.result);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&picture, &drawn).unwrap();
        }
        if fs::read_to_string(&picture).ok() != Some(drawn) {
            wrong
                .push(format!("{} is not of its record; run: UPDATE=1 cargo test --test cli e2e::", picture.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The examples' scripts, if a Python with torch is installed: what they list and what they refuse.
#[test]
fn the_examples_scripts_list_their_cases_and_refuse_what_is_wrong() {
    let python = std::env::var_os("KERNELS_PYTHON").filter(|path| !path.is_empty());
    let Some(python) = python else {
        crate::support::not_run("the examples' benchmark_e2e.py, for want of a Python with torch (KERNELS_PYTHON)");
        return;
    };
    let (mut given, mut expected) = (Vec::new(), Vec::new());
    for (example, first, last) in [("ltx_video", "step-49 ", "loop-49"), ("qwen3_8b", "prefill-8192", "generate-32")] {
        let script = root().join("examples").join(example).join("benchmark_e2e.py");
        let refused: [(&[&str], i32, &str); 6] = [
            (&["--cases", "nothing"], 2, "there is no case nothing"),
            (&["--contenders", "eager,liger"], 2, "there is no contender liger"),
            (&["--rounds", "1"], 2, "at least 3"),
            (&["--dry"], 2, "--dry goes with --smoke"),
            (&["--smoke"], 1, "there is no CUDA device"),
            (&["--smoke", "--dry", "--kernel", "./none"], 1, "kernels build --torch"),
        ];
        let argv = |arguments: &[&str]| {
            [&[script.to_str().unwrap()], arguments].concat().into_iter().map(str::to_owned).collect()
        };
        given.push(argv(&["--list"]));
        expected.push((0, first, last));
        for (arguments, code, said) in refused {
            given.push(argv(arguments));
            expected.push((code, "", said));
        }
    }
    // Hide any GPU: this tests the message on a machine without one.
    let environment = json!({ "CUDA_VISIBLE_DEVICES": "" });
    let ran = crate::support::forked(&python, &["torch", "torch._dynamo"], &given, &environment);
    for ((given, (code, first, words)), ran) in given.iter().zip(expected).zip(ran) {
        let whole = if code == 0 { &ran.out } else { &ran.err };
        assert!(ran.code == code && whole.starts_with(first) && whole.contains(words), "{given:?}: {ran:#?}");
    }
}
