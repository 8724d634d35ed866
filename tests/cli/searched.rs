//! docs/generated/search.md: what the recorded runs of `kernels search` found, and which published kernels stand.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Ran, Test, generated, root};

const RECORD: &str = "evidence/search";
const TEST: &str = "cli searched";

/// What `kernels search status` says of each recorded run of a folder, by name.
fn runs(test: &Test, folder: &Path) -> BTreeMap<String, Value> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let runs = entries.filter(|entry| entry.path().is_dir());
    runs.map(|entry| {
        let mut command = test.command();
        command.args(["search", "status", "--json"]).arg(entry.path());
        let said = Ran::of(&mut command);
        said.expect(0, &[]);
        (entry.file_name().into_string().unwrap(), serde_json::from_str(&said.out).unwrap())
    })
    .collect()
}

/// The rows of a list with an object a line.
fn rows(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The speed-up of a candidate over the best peer, and which that was; where a peer is missing, why.
fn speedup(folder: &Path, candidate: &Value) -> [String; 2] {
    let confirmed = rows(&folder.join("events.jsonl"))
        .into_iter()
        .rfind(|event| event["kind"] == "confirmed" && event["data"]["candidate"] == candidate["candidate"]);
    let Some(confirmed) = confirmed.filter(|_| candidate["standing"] == "confirmed") else { return Default::default() };
    let [best, why] = ["best", "why"].map(|name| &confirmed["data"][name]);
    match (candidate["speedup"].as_f64(), why.as_str()) {
        (Some(times), None) => {
            [format!("{times:.2} ×"), best.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(", ")]
        }
        (_, Some(why)) if why.contains("no case was timed with its data in device memory") => {
            [String::new(), "none: data in L2 alone".to_owned()]
        }
        _ => [String::new(), "not timed beside all three".to_owned()],
    }
}

fn caught(run: &Value) -> String {
    let found = run["candidates"].as_array().unwrap().iter().skip(1).filter(|one| one["standing"] == "caught");
    let names: Vec<&str> =
        found.flat_map(|one| one["findings"].as_array().unwrap()).filter_map(Value::as_str).collect();
    let mut counted: BTreeMap<&str, u32> = BTreeMap::new();
    for name in names {
        *counted.entry(name).or_default() += 1;
    }
    counted.into_iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

fn figures(one: &Value) -> (String, String) {
    let summary = &one["summary"];
    let us = summary["us"].as_f64().map(|us| format!("{us:.*}", if us < 10.0 { 2 } else { 1 })).unwrap_or_default();
    (us, summary["roof"].as_f64().map(|roof| format!("{:.1} %", 100.0 * roof)).unwrap_or_default())
}

#[test]
fn the_page_of_the_recorded_searches_is_the_record() {
    let test = Test::new();
    let record = root().join(RECORD);
    let mut page = String::from(
        "# What `kernels search` found\n\n<!-- Generated from evidence/search: UPDATE=1 cargo test --test cli searched -->\n\n\
         How the runs were made, and what they do not show, is in [search.md](../search.md#measured).\n\n## Tasks of KernelBench\n\n",
    );
    let tasks = runs(&test, &record.join("tasks"));
    let card = &tasks.values().next().unwrap()["card"]["name"];
    writeln!(page, "{}; speed-up over the best of torch, torch.compile and max-autotune.\n", card.as_str().unwrap())
        .unwrap();
    page.push_str("| task | | candidates | caught | best, µs | of the roof | speed-up | best peer |\n|---|---|--:|---|--:|--:|--:|---|\n");
    for (name, run) in &tasks {
        let candidates = run["candidates"].as_array().unwrap();
        let best = &candidates[usize::try_from(run["best"].as_u64().unwrap_or(0)).unwrap()];
        let (us, roof) = if best["standing"] == "confirmed" { figures(best) } else { Default::default() };
        let [speedup, peer] = speedup(&record.join("tasks").join(name), best);
        let (title, count) = (run["project"].as_str().unwrap(), candidates.len() - 1);
        writeln!(page, "| {name} | {title} | {count} | {} | {us} | {roof} | {speedup} | {peer} |", caught(run))
            .unwrap();
    }
    page.push_str(
        "\n## Kernels that were published elsewhere\n\nRight: at the sizes of the publication, and at other sizes of the same task. The published \
         speed-up is over torch, and over torch.compile; ours over the best of three peers, in one run. \"Ran there\": whether the \
         published program ran this kernel, or fell back to torch.\n\n\
         | kernel | of | published | ran there | right at its sizes | at other sizes | card | of the roof | speed-up | best peer |\n\
         |---|---|---|---|---|---|---|--:|--:|---|\n",
    );
    let published = runs(&test, &record.join("published"));
    for row in rows(&record.join("published.jsonl")) {
        let run = &published[row["task"].as_str().unwrap()];
        let one = &run["candidates"][1];
        let is_caught = one["standing"] == "caught";
        let own = row["own"].as_str().filter(|own| !own.is_empty()).unwrap_or("yes");
        assert!(!is_caught || own != "yes", "{row}");
        let [speedup, peer] = speedup(&record.join("published").join(row["task"].as_str().unwrap()), one);
        let roof = if is_caught { String::new() } else { figures(one).1 };
        let of = |name: &str| row["speedup"][name].as_f64().map_or("–".to_owned(), |times| format!("{times:.2} ×"));
        let cells = [row["title"].as_str(), row["source"].as_str(), row["others"].as_str()].map(Option::unwrap);
        let said = format!("{}, {}", of("eager"), of("compile"));
        let ran = if row["ran"] == true { "yes" } else { "no" };
        let [title, source, others] = cells;
        let card = run["card"]["name"].as_str().unwrap().split(' ').nth(1).unwrap();
        writeln!(
            page,
            "| {title} | {source} | {said} | {ran} | {own} | {others} | {card} | {roof} | {speedup} | {peer} |"
        )
        .unwrap();
    }
    generated(&root().join("docs/generated/search.md"), &page, TEST);
}
