//! `kernels tune` and the proposer `sweep` on the driver without a card: a kernel that says how long it takes, by the row
//! of its table.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::stand_in::{place, written};

/// A table with what makes reading one hard; the card is of architecture 7.5. `SPOILT` is the row that cases from 64 columns on take.
const TABLE: &str = r#"// kTuning[] = { not a table } "nor a string
#pragma once
#include <stdint.h>
struct Layout { int threads, held = 1; };
struct Tuning { int arch; int64_t width; bool stream; Layout layout; };
constexpr bool kCached = false, kStream = true;
enum Access : int { kNone, kWide = 16 };
// X(threads, held): 256 x 3 gives other numbers, and 7 does not compile.
#define LAYOUTS(X)            \
  X(32, 1) /* one warp */     \
  X(64, 2)                    \
  X(128, 1)                   \
  X(256, 3)                   \
  X(7, 1)
constexpr Tuning kTuning[] = {
    // H100: "measured, {90, 0, kStream, {1, 1}}" */
    SPOILT,  // 1024: 99 %
    {70, 0, kCached, {32}},
    {70, -1, kCached, {/* of all */ kWide, 2}},
};
constexpr bool sound() {
  for (const Tuning& row : kTuning)
    if (row.layout.threads == 7) return false;
  return true;
}
static_assert(sound(), "7 threads are not compiled");
constexpr const Tuning& find_tuning(int64_t width) {
  for (const Tuning& row : kTuning)
    if (row.width <= width) return row;
  return kTuning[2];
}
"#;

const SOURCE: &str = r#"#include "rms_norm.cuh"
#include "tuning.h"
#define KERNEL(THREADS_OF_A_ROW, TIME)                                     \
  __global__ void timed_##THREADS_OF_A_ROW(Rows<float> a) { \
    if (THREADS_OF_A_ROW == 256) a.eps = 1;                                \
    norm_row(a, blockIdx.x);                                               \
    const double bytes = 4.0 * (2 * a.rows * a.width + a.width);           \
    stand_in::takes(bytes / 1e6 + TIME);                                   \
  }
KERNEL(32, 4)
KERNEL(64, 3)
KERNEL(128, 2)
KERNEL(256, 1.5)
static int launch(const Call& call) {
  // No table at run time: it would be a variable of the device here.
  constexpr int wide = find_tuning(64).layout.threads, narrow = find_tuning(1).layout.threads;
  const int threads = call.width >= 64 ? wide : narrow;
  return launch_rows(threads == 32 ? timed_32 : threads == 64 ? timed_64 : threads == 128 ? timed_128 : timed_256, call);
}
"#;

const TUNING: &str = r#"
[[tuning]]
file = "tuning.h"
table = "kTuning"
operations = ["rms_norm"]
row = ["arch", "width", "stream", ["threads", "held"]]
optional = { held = 1 }
keys = { arch = "<= arch", width = "<= width", stream = ">= 0" }
vary = [{ macro = "LAYOUTS", names = ["threads", "held"] }]
"#;

const SPOILT: &str = "{75, 64, kCached, {64, 2}}";
const SHAPE: [&str; 2] = ["--shape", "rows=20,width=100"];

fn project(spoilt: &str) -> TempDir {
    let folder = written("", "3");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("tuning.h"), TABLE.replace("SPOILT", spoilt)).unwrap();
    fs::write(at("candidate.cu"), SOURCE).unwrap();
    let build = fs::read_to_string(at("build.toml")).unwrap();
    fs::write(at("build.toml"), build.replace("\"candidate.cu\"", "\"candidate.cu\", \"tuning.h\"")).unwrap();
    let kernel = fs::read_to_string(at("kernel.toml")).unwrap();
    fs::write(at("kernel.toml"), kernel + TUNING).unwrap();
    folder
}

/// All files of a project.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap())).collect()
}

fn tune(project: &Path, arguments: &[&str]) -> Output {
    place().command().args(["tune", "--json"]).arg(project).args(arguments).output().unwrap()
}

fn report(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_spoilt_row_is_found_again_and_what_is_wrong_is_named_and_never_timed() {
    let project = project(SPOILT);
    let before = tree(project.path());
    let dry = report(&tune(project.path(), &[&SHAPE[..], &["--dry-run"]].concat()));
    assert_eq!(dry["rows"][0]["best"], "{75, 64, kCached, {128, 1}}", "{dry:#}");
    assert_eq!(dry["written"], false);
    assert_eq!(tree(project.path()), before);

    let found = report(&tune(project.path(), &SHAPE));
    let of = |row: &str| {
        let all = found["rows"][0]["candidates"].as_array().unwrap();
        all.iter().find(|one| one["row"] == row).unwrap_or_else(|| panic!("no {row} in {found:#}")).clone()
    };
    let wrong = of("{75, 64, kCached, {256, 3}}");
    assert_eq!((&wrong["outcome"], &wrong["rounds"]), (&"wrong".into(), &0.into()), "{wrong:#}");
    assert!(wrong["why"].as_str().unwrap().contains("wrong-value rms_norm"), "{wrong:#}");
    let unbuilt = of("{75, 64, kCached, {7, 1}}");
    assert_eq!(unbuilt["outcome"], "not-built");
    assert!(unbuilt["why"].as_str().unwrap().contains("7 threads are not compiled"), "{unbuilt:#}");
    assert_eq!(of("{75, 64, kCached, {32, 1}}")["outcome"], "behind");
    assert!(of(SPOILT)["rounds"].as_u64() > of("{75, 64, kCached, {32, 1}}")["rounds"].as_u64());

    // The row is written in its place, below a comment, and every other byte is as it was.
    let after = tree(project.path());
    let (old, new) = (&before["tuning.h"], &after["tuning.h"]);
    let (front, back) = old.split_once(SPOILT).unwrap();
    let middle = new.strip_prefix(front).unwrap().strip_suffix(back).unwrap();
    assert!(
        middle.starts_with("// kernels tune, ") && middle.ends_with("\n    {75, 64, kCached, {128, 1}}"),
        "{middle}"
    );
    assert!(middle.contains("Before it {75, 64, kCached, {64, 2}} "), "{middle}");
    assert!(found["diff"].as_str().unwrap().contains("+    {75, 64, kCached, {128, 1}},  // 1024: 99 %"), "{found:#}");
    // A bench says which rows nobody measured on this card.
    let bench = |shape: &str| {
        let output =
            place().command().args(["bench", "--json", "--rounds", "5", "--shape", shape]).arg(project.path()).output();
        report(&output.unwrap())["remarks"].to_string()
    };
    assert!(!bench("rows=20,width=100").contains("of which there is no measurement"));
    let said = bench("rows=20,width=32");
    assert!(said.contains("rms_norm rows=20 width=32 f32 runs on the row {70, 0, kCached, {32}} of kTuning"), "{said}");

    let back = report(&tune(project.path(), &["--undo"]));
    assert_eq!(back["written"], true);
    assert_eq!(tree(project.path()), before);
    assert_eq!(report(&tune(project.path(), &["--undo"]))["written"], false);
}

#[test]
fn a_row_for_more_than_the_shape_stays_for_the_rest() {
    let project = project("{70, 64, kCached, {64, 2}}");
    let old = fs::read_to_string(project.path().join("tuning.h")).unwrap();
    let found = report(&tune(project.path(), &SHAPE));
    let new = fs::read_to_string(project.path().join("tuning.h")).unwrap();
    assert_eq!(found["rows"][0]["best"], "{75, 64, kCached, {128, 1}}");
    let (front, back) = old.split_once("{70, 64,").unwrap();
    let middle = new.strip_prefix(front).unwrap().strip_suffix(&format!("{{70, 64,{back}")).unwrap();
    assert!(middle.ends_with("\n    {75, 64, kCached, {128, 1}},\n    "), "{middle}");
    // What somebody edits elsewhere stays when the row is taken back.
    fs::write(project.path().join("tuning.h"), format!("{new}// mine\n")).unwrap();
    report(&tune(project.path(), &["--undo"]));
    assert_eq!(fs::read_to_string(project.path().join("tuning.h")).unwrap(), format!("{old}// mine\n"));
}

/// A run that is verifying, with its output in a file.
fn started(project: &Path) -> Child {
    let mut command = place().command();
    let child = command.arg("tune").arg(project).args(SHAPE).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let (mut said, mut byte) = (String::new(), [0]);
    let start = Instant::now();
    while !said.contains("verifying: ") {
        assert!(start.elapsed() < Duration::from_secs(120), "{said}");
        let read = std::io::Read::read(child.stderr.as_mut().unwrap(), &mut byte).unwrap();
        assert!(read == 1, "{said}");
        said.push(byte[0].into());
    }
    child
}

#[test]
fn a_killed_run_leaves_the_project_as_it_was() {
    let project = project(SPOILT);
    let before = tree(project.path());
    let mut child = started(project.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(tree(project.path()), before);
}

#[test]
fn an_edit_meanwhile_is_not_lost() {
    let project = project(SPOILT);
    let table = project.path().join("tuning.h");
    let child = started(project.path());
    let text = fs::read_to_string(&table).unwrap();
    fs::write(&table, text.replace("{70, 0, kCached, {32}}", "{70, 0, kStream, {32}}")).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let new = fs::read_to_string(&table).unwrap();
    assert!(new.contains("{70, 0, kStream, {32}}") && new.contains("{75, 64, kCached, {128, 1}}"), "{new}");

    // In the row itself: it stays, and the row that was found is told.
    report(&tune(project.path(), &["--undo"]));
    let child = started(project.path());
    let edited = fs::read_to_string(&table).unwrap().replace(SPOILT, "{75, 65, kCached, {64, 2}}");
    fs::write(&table, &edited).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{said}");
    assert!(said.contains("was edited meanwhile") && said.contains("by hand: {75, 64, kCached, {128, 1}}"), "{said}");
    assert_eq!(fs::read_to_string(&table).unwrap(), edited);
    assert!(!project.path().join("tuning.json").exists());
}

#[test]
fn a_table_that_is_not_understood_is_an_error_with_its_line() {
    for (from, to, says) in [
        ("{70, 0, kCached, {32}}", "{70, 0, kCached, 32}", "tuning.h:18: kTuning: expected `{`"),
        ("{70, 0, kCached, {32}}", "{70, 0, kCached, {32, 1, 2}}", "`2` is one field too many"),
        ("{70, 0, kCached, {32}}", "{70, 0}", "a row ends before its field `stream`"),
        ("{70, 0, kCached, {32}}", "{70, 0, kUnknown, {32}}", "constants = { kUnknown = … }"),
        ("{70, 0, kCached, {32}}", "{70, 8 * 8, kCached, {32}}", "`8` of field `width` is not one number"),
        ("{70, 0, kCached, {32}}", "{.arch = 70, 0, kCached, {32}}", "tuning.h:18: kTuning: `.` of field `arch`"),
        ("kTuning[] = {\n", "kTunings[] = {\n", "has no array `kTuning[] = { … }`"),
        ("#define LAYOUTS(X)", "#define LAYOUT(X) ", "has no macro LAYOUTS(X)"),
        ("X(256, 3)", "Y(256, 3)", "macro LAYOUTS has `Y` where an entry `X(…)` should stand"),
        ("X(256, 3)", "X(256, 3, 4)", "an entry of 3 arguments, and `names` of [[tuning]] has 2"),
        ("X(256, 3)", "X(kOther, 3)", "argument `threads` is not a number"),
    ] {
        let project = project(SPOILT);
        let table = project.path().join("tuning.h");
        let text = fs::read_to_string(&table).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&table, text.replacen(from, to, 1)).unwrap();
        let output = tune(project.path(), &SHAPE);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{from} → {to}: {said}");
        assert!(said.contains(says), "no `{says}` in: {said}");
    }
}

#[test]
fn a_sweep_tries_the_same_rows_in_a_search() {
    let project = project(SPOILT);
    let out = TempDir::new().unwrap();
    let run = out.path().join("run");
    let command = |words: &[&str]| {
        let output = place().command().arg("search").args(words).arg("--json").output().unwrap();
        report(&output)
    };
    let (task, run) = (project.path().to_str().unwrap(), run.to_str().unwrap());
    let report = command(&["run", task, "--proposer", "sweep", "--out", run, "--islands", "1"]);
    let best = report["best"].as_u64().unwrap();
    let shown = command(&["show", &best.to_string(), run]);
    // The bench case has 32 columns.
    assert!(shown.to_string().contains("+    {75, 0, kCached, {128}},"), "{shown:#}");
    let all = (1..=4).map(|id| command(&["show", &id.to_string(), run]).to_string()).collect::<Vec<_>>().join("\n");
    assert!(all.contains("wrong-value") && all.contains("7 threads are not compiled"), "{all}");
}
