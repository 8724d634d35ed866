//! docs/generated/evals.md and its picture: what `kernels skills runs` says of the recorded run of cuda-kernels' own tasks.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::support::{Ran, Test, generated, root};

const RECORD: &str = "evidence/evals/cuda-kernels";
const TEST: &str = "cli measured";
const ARMS: [(&str, &str); 3] =
    [("without", "without"), ("old=skill-before/cuda-kernels", "skill of 59065ac"), ("with", "skill, mended")];

/// The outcome of a row, with the share of the copy and the reason where there are any.
fn cell(row: &Value) -> String {
    let mut text = row["outcome"].as_str().unwrap().to_owned();
    if let Some(roof) = row["gates"]["roof"].as_f64().filter(|roof| *roof > 0.0) {
        write!(text, ", {:.0} %", 100.0 * roof).unwrap();
    }
    let why = row["why"].as_str().unwrap_or_default();
    if !why.is_empty() && why != "failed: roof" {
        write!(text, ": {}", why.replace('|', "/")).unwrap();
    }
    text
}

#[test]
fn the_page_of_the_recorded_run_is_the_record() {
    let test = Test::new();
    let record = root().join(RECORD);
    let picture = test.at("evals.svg");
    let runs = || {
        let mut command = test.command();
        command.current_dir(root()).args(["skills", "runs", RECORD]);
        command
    };
    let said = Ran::of(runs().arg("--plot").arg(&picture));
    said.expect(0, &["runs"]);
    let svg = fs::read_to_string(&picture).unwrap();
    generated(&root().join("docs/generated/evals.svg"), &svg, TEST);

    let events = fs::read_to_string(record.join("events.jsonl")).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<&Value> = events.iter().filter(|event| event["kind"] == "row").map(|event| &event["data"]).collect();
    let mut tasks: Vec<&str> = rows.iter().filter_map(|row| row["task"].as_str()).collect();
    tasks.sort_unstable();
    tasks.dedup();
    let mut page = String::from(
        "# cuda-kernels, measured by its own tasks\n\n<!-- Generated from evidence/evals: UPDATE=1 cargo test --test cli measured -->\n\n\
         How the runs were made, and what they do not show, is in [evaluation.md](../evaluation.md#cuda-kernels-measured). A figure behind an\n\
         outcome is the least share of a copy's speed among the cases that are timed.\n\n![Lift, and outcomes by task](evals.svg)\n\n",
    );
    writeln!(page, "```\n{}\n```\n", said.out.trim_end()).unwrap();
    writeln!(page, "| task | {} |\n|---|---|---|---|", ARMS.map(|(_, head)| head).join(" | ")).unwrap();
    for task in tasks {
        let of = |arm: &str| rows.iter().find(|row| row["task"] == task && row["arm"] == arm).map(|row| cell(row));
        writeln!(page, "| {task} | {} |", ARMS.map(|(arm, _)| of(arm).unwrap_or_default()).join(" | ")).unwrap();
    }
    generated(&root().join("docs/generated/evals.md"), &page, TEST);
}
