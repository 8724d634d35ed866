//! What a run of `kernels search` is shown as: `status`, `site` and `export` of archives that a test writes, with a thousand
//! candidates, and with names and sources of a hostile hand.

#![allow(clippy::cast_precision_loss, reason = "counts of a test")]

use std::fs;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{Test, copy, sha256};

/// A run's folder as a test writes it.
struct Archive<'a> {
    test: &'a Test,
    run: String,
    events: Vec<String>,
}

impl<'a> Archive<'a> {
    fn new(test: &'a Test, run: &str, proposers: &[&str]) -> Self {
        let mut archive = Self { test, run: run.to_owned(), events: Vec::new() };
        let card = json!({ "name": "NVIDIA H100 80GB HBM3", "arch": 90, "sms": 132, "l2_bytes": 52_428_800,
                           "memory_bytes": 85_000_000_000_u64, "driver": "580.95.05", "cuda": "13.0", "peak_gbs": 3350.0 });
        let settings = json!({ "seed": 7, "proposers": proposers, "budget": { "evals": 1000 }, "flight": 8, "islands": 4,
                               "stall": 64, "patience": 900, "against": ["torch", "compile"], "donors": [], "engine": "local" });
        archive.event("header", &json!({ "kind": "kernels search" }));
        let run = json!({ "project": "norm", "folder": "task", "task": "0".repeat(64), "editable": ["norm.cu"], "version": "0.1.0",
                          "settings": settings, "compiler": { "Ok": "13.0.88" }, "card": { "Ok": card }, "arch": 90 });
        archive.event("run", &run);
        archive
    }

    fn event(&mut self, kind: &str, data: &Value) {
        let event = json!({ "seq": self.events.len(), "time": "2026-11-24T10:00:00.000Z", "kind": kind, "data": data });
        self.events.push(format!("{event}\n"));
    }

    fn blob(&self, contents: &Value) -> String {
        let bytes = contents.to_string();
        let digest = sha256(&bytes);
        self.test.write(&format!("{}/blobs/{}/{}", self.run, &digest[..2], &digest[2..]), bytes);
        digest
    }

    fn generation(&mut self, number: usize, plans: &[Value]) {
        self.event("generation", &json!({ "number": number, "plans": plans, "seconds": number as f64 * 20.0 }));
    }

    fn proposed(&mut self, id: usize, source: &str, thought: &str, attempts: &Value) {
        let tree = self.blob(&json!({ "norm.cu": source }));
        let cost =
            json!({ "usd": 0.002, "tokens_in": 1000, "tokens_out": 200, "requests": 1, "model": "m", "seconds": 1.5 });
        let program = format!(
            "{:064x}",
            Sha256::digest(source).iter().fold(0_u128, |sum, byte| sum.rotate_left(5) ^ u128::from(*byte))
        );
        self.event(
            "proposed",
            &json!({ "candidate": id, "tree": tree, "changed": ["norm.cu"], "thought": thought, "question": "q".repeat(64),
                     "answer": "a".repeat(64), "cost": cost, "attempts": attempts, "program": program, "change": "5".repeat(512) }),
        );
    }

    fn write(&self) {
        self.test.write(&format!("{}/events.jsonl", self.run), self.events.concat());
    }
}

fn plan(id: usize, proposer: &str, operator: &str, parents: &[usize]) -> Value {
    json!({ "candidate": id, "island": id % 4, "proposer": proposer, "operator": operator, "parents": parents, "sample": id })
}

fn passed(stages: &[&str]) -> Value {
    stages.iter().map(|stage| json!({ "stage": stage, "outcome": "passed", "seconds": 1.0 })).collect()
}

fn failed(stage: &str, kind: &str, text: &str) -> Value {
    json!([{ "stage": stage, "outcome": "failed", "seconds": 1.0, "findings": [{ "kind": kind, "text": text, "public": true }] }])
}

/// A source of some 60 lines.
fn source(id: usize) -> String {
    let line =
        |n: usize| format!("  acc += x[{n} * stride + threadIdx.x] * w[{}];\n", if n % 31 == id % 31 { id } else { n });
    format!("// norm\n__global__ void norm() {{\n{}}}\n", (0..60).map(line).collect::<String>())
}

fn bench(us: f64, peers: &[(&str, f64)]) -> Value {
    let spread = |median: f64| json!({ "median": median, "p10": median, "p90": median, "min": median, "samples": 30 });
    let peers: Vec<Value> = peers.iter().map(|(name, us)| json!({ "name": name, "time": spread(*us) })).collect();
    let case = json!({ "operation": "norm", "case": "rows=4096 f16", "dtype": "f16", "values": {}, "bytes": 1, "flops": 1.0,
                       "residency": "cold", "slots": 4, "kernel": spread(us), "copy": spread(10.0), "copy_by": "kernel", "launches": [],
                       "checked": 1, "remarks": [], "against": { "clock": "kernels", "kernel": spread(us), "copy": null, "peers": peers } });
    json!({ "project": "norm", "card": { "name": "H100", "arch": 90, "sms": 1, "l2_bytes": 1, "memory_bytes": 1, "driver": null,
            "cuda": "13.0", "peak_gbs": null }, "compiler": "13.0.88", "seed": 0, "cases": [case], "findings": [], "remarks": [] })
}

/// A run in which every fifth candidate is caught, and every tenth confirmed.
fn large(test: &Test, run: &str, count: usize) {
    let proposers = ["http:http://127.0.0.1:1/v1#m", "exec:./mutate.py"];
    let mut archive = Archive::new(test, run, &proposers);
    archive.generation(0, &[plan(0, "start", "given", &[])]);
    let mut next = 1;
    for id in 0..count {
        if id == next {
            let plans: Vec<Value> = (id..(id + 8).min(count))
                .map(|id| plan(id, proposers[id % 2], ["improve", "rewrite", "crossover"][id % 3], &[(id - 1) / 8 * 4]))
                .collect();
            archive.generation(1 + id / 8, &plans);
            next += 8;
        }
        archive.proposed(id, &source(id), "Wider loads.", &passed(&["edit", "novelty"]));
        if id > 0 && id % 5 == 0 {
            let text = "norm.cu(12): error: identifier \"stride\" is undefined";
            archive.event(
                "compiled",
                &json!({ "candidate": id, "attempts": failed("compile", "does-not-compile", text),
                                               "code": null, "device": null, "features": null, "ended": 0.0 }),
            );
            continue;
        }
        let features =
            json!({ "tensor": id % 7 == 0, "copies": id % 3, "wide": id % 2, "registers": id % 3, "shared": 1 });
        archive.event("compiled", &json!({ "candidate": id, "attempts": passed(&["check", "compile", "identity"]), "code": format!("{id:064x}"),
                                           "device": format!("{id:064x}"), "features": features, "facts": null, "ended": 0.0 }));
        let us = 20.0 - 9.0 * (id as f64 / count as f64) - (id % 11) as f64 * 0.1;
        let summary =
            json!({ "us": us, "roof": 10.0 / us, "worst": 9.0 / us, "spread": 0.01, "cases": 1, "launches": 1 });
        let timed = archive.blob(&bench(us, &[]));
        archive.event("judged", &json!({ "candidate": id, "attempts": passed(&["verify-few", "verify", "bench"]), "summary": summary,
                                         "timed": timed, "card": "NVIDIA H100 80GB HBM3", "started": 0.0, "ended": 1.0 }));
        if id % 10 == 1 {
            let timed = archive.blob(&bench(us, &[("torch", us * 3.0), ("compile", us * 1.25)]));
            let missing: &[&str] = if id % 20 == 11 { &["liger"] } else { &[] };
            archive.event("confirmed", &json!({ "candidate": id, "attempts": passed(&["confirm"]), "runs": 1, "summary": summary, "speedup": 1.25,
                "best": { "compile": 1 }, "missing": missing, "timed": [timed], "card": "NVIDIA H100 80GB HBM3", "started": 0.0, "ended": 1.0 }));
        }
    }
    archive.event("ended", &json!({ "why": "the budget of 1000 evaluations is spent", "seconds": 3000.0 }));
    archive.write();
}

#[test]
fn the_status_of_a_thousand_candidates_is_read_from_its_events_alone() {
    let test = Test::new();
    large(&test, "run", 1000);
    // Sources, reports and results are not looked at.
    fs::remove_dir_all(test.at("run/blobs")).unwrap();
    let begun = std::time::Instant::now();
    let ran = test.ok("search status run");
    println!("status of 1,000 candidates: {:?}", begun.elapsed());
    ran.expect(0, &["1000 candidates", "100 confirmed", "does-not-compile: 199 candidates"]);
    large(&test, "few", 12);
    test.ok("search status few").expect(0, &["1.25, without liger"]);
    test.ok("search show 11 few").expect(0, &["1.25 times the speed of the best peer: compile in 1, without liger"]);
}

/// Leaves a project below the folder that `KERNELS_TEST_KEEP` names, to be looked at in a browser and loaded in Python.
fn keep(test: &Test, name: &str) {
    if let Ok(folder) = std::env::var("KERNELS_TEST_KEEP") {
        copy(&test.project, &std::path::Path::new(&folder).join(name));
    }
}

/// The tags of a page, as a browser would read them.
fn tags(page: &str) -> Vec<&str> {
    let body = page.split_once("</style>").unwrap().1;
    body.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()).collect()
}

fn is_harmless(page: &str) {
    const NAMES: [&str; 36] = [
        "/head", "body", "/body", "/html", "h1", "/h1", "h2", "/h2", "p", "/p", "nav", "/nav", "a", "/a", "div",
        "/div", "b", "/b", "span", "/span", "table", "/table", "thead", "/thead", "tbody", "/tbody", "tr", "/tr", "th",
        "/th", "td", "/td", "ul", "/ul", "li", "/li",
    ];
    const MORE: [&str; 17] = [
        "details", "/details", "summary", "/summary", "pre", "/pre", "ins", "/ins", "del", "/del", "svg", "/svg",
        "circle", "/circle", "title", "/title", "text",
    ];
    const REST: [&str; 3] = ["/text", "line", "path"];
    for tag in tags(page) {
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(NAMES.contains(&name) || MORE.contains(&name) || REST.contains(&name), "<{tag}>");
        assert!(!attributes.contains("on") || !attributes.contains("=\"alert"), "<{tag}>");
        for href in attributes.split("href=\"").skip(1) {
            assert!(href.starts_with('#'), "<{tag}>");
        }
        assert!(
            !attributes.contains(" src=") && !attributes.contains("onerror") && !attributes.contains("javascript"),
            "<{tag}>"
        );
    }
    assert!(page.contains("default-src 'none'"));
}

const EVIL: &str = "\"></pre></script><script>alert(1)</script><img src=x onerror=alert(2)>'\u{202e}<!--";

#[test]
fn what_candidates_wrote_is_text_on_the_page_and_in_the_data_set() {
    let test = Test::new();
    let proposer = format!("exec:{EVIL}");
    let mut archive = Archive::new(&test, "run", &[&proposer]);
    archive.generation(0, &[plan(0, "start", "given", &[])]);
    archive.proposed(0, &source(0), "", &passed(&["edit", "novelty"]));
    archive.generation(1, &[plan(1, &proposer, EVIL, &[0]), plan(2, &proposer, "improve", &[0])]);
    archive.proposed(1, &format!("{EVIL}\n{}\0\n", source(0)), EVIL, &passed(&["edit", "novelty"]));
    let caught = failed("compile", EVIL, &format!("{EVIL}\n{}", "x".repeat(100_000)));
    archive.event(
        "compiled",
        &json!({ "candidate": 1, "attempts": caught, "code": null, "device": null, "features": null, "ended": 0.0 }),
    );
    // A million lines, which no difference is computed of.
    archive.proposed(2, &format!("{EVIL}\n{}", "a\n".repeat(500_000)), EVIL, &passed(&["edit", "novelty"]));
    archive.write();
    test.ok("search site run -o page.html");
    let page = fs::read_to_string(test.at("page.html")).unwrap();
    is_harmless(&page);
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains('\u{202e}') && page.contains("u{202e}"));
    assert!(page.len() < 400_000, "{}", page.len());
    test.ok("search export run -o data");
    let rows = fs::read_to_string(test.at("data/candidates.jsonl")).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows[1]["Thought"].as_str(), rows[1]["Proposer"].as_str()), (Some(EVIL), Some(proposer.as_str())));
    assert!(rows[1]["CUDA_Code"].as_str().unwrap().starts_with(EVIL));
    keep(&test, "hostile");
}

#[test]
fn a_thousand_candidates_are_a_page_and_a_data_set() {
    let test = Test::new();
    large(&test, "run", 1000);
    let begun = std::time::Instant::now();
    test.ok("search site run -o page.html");
    println!("site of 1,000 candidates: {:?}", begun.elapsed());
    let page = fs::read_to_string(test.at("page.html")).unwrap();
    is_harmless(&page);
    assert!(page.len() < 8_000_000, "{}", page.len());
    for id in 0..1000 {
        assert!(page.contains(&format!("id=\"c{id}\"")), "candidate {id}");
    }
    assert_eq!(page.matches(">1.25</td>").count(), 100, "a speed-up for each confirmed row, and for no other");
    assert_eq!(page.matches("<td>compile, without liger</td>").count(), 50, "what the figure leaves out");
    for words in
        ["island 3", "<ins>", "<del>", "does-not-compile", "tokens out", "class=\"edge best\"", "class=\"roof\""]
    {
        assert!(page.contains(words), "{words}");
    }
    test.run("search site run -o .").expect(1, &["no regular file"]);
    let begun = std::time::Instant::now();
    let report = test.json("search export run -o data");
    println!("export of 1,000 candidates: {:?}", begun.elapsed());
    assert_eq!(report["rows"], 1000);
    let rows = fs::read_to_string(test.at("data/candidates.jsonl")).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let theirs = [
        "Op_Name",
        "Level_ID",
        "Task_ID",
        "Kernel_Name",
        "CUDA_Runtime",
        "PyTorch_Native_Runtime",
        "PyTorch_Compile_Runtime",
        "CUDA_Speedup_Native",
        "CUDA_Speedup_Compile",
        "CUDA_Code",
        "PyTorch_Code_Module",
        "PyTorch_Code_Functional",
        "Correct",
        "Max_Diff",
        "Error",
        "NCU_Profile",
        "Torch_Profile",
        "Clang_Tidy",
        "__index_level_0__",
    ];
    let names: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    assert_eq!(names[..19], theirs);
    for (id, row) in rows.iter().enumerate() {
        let (confirmed, failed) = (id % 10 == 1, id > 0 && id % 5 == 0);
        assert_eq!(
            (&row["__index_level_0__"], &row["Correct"], &row["Confirmed"]),
            (&json!(id), &json!(!failed), &json!(confirmed))
        );
        let near = |name: &str, value: f64| (row[name].as_f64().unwrap() - value).abs() < 1e-9;
        if confirmed {
            let ms = row["CUDA_Runtime"].as_f64().unwrap();
            assert!(
                near("CUDA_Speedup_Native", 3.0)
                    && near("CUDA_Speedup_Compile", 1.25)
                    && near("PyTorch_Native_Runtime", 3.0 * ms),
                "{row}"
            );
        } else {
            for name in
                ["Speedup", "CUDA_Speedup_Native", "CUDA_Speedup_Compile", "PyTorch_Native_Runtime", "Best_Baseline"]
            {
                assert!(row[name].is_null(), "{name}: {row}");
            }
        }
        assert_eq!(row["Error"].is_string(), failed);
        assert_eq!(row["CUDA_Code"], source(id));
    }
    let parquet = fs::read(test.at("data/candidates.parquet")).unwrap();
    let length = u32::from_le_bytes(parquet[parquet.len() - 8..][..4].try_into().unwrap()) as usize;
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1") && length < 10_000);
    let footer = String::from_utf8_lossy(&parquet[parquet.len() - 8 - length..]);
    for name in names {
        assert_eq!(footer.matches(name.as_str()).count() % 2, 0, "{name} is in the schema and in its column");
    }
    // A data set of the user's stays.
    test.run("search export run -o data").expect(3, &["has files already"]);
    assert_eq!(fs::read(test.at("data/candidates.parquet")).unwrap(), parquet);
    keep(&test, "large");
}
