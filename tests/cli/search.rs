//! `kernels search`: without a compiler and a card, what is refused, by which name, and that a run goes on where it was
//! killed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Ran, Test, picture, program, wait_until};

pub(super) const BUILD: &str = "[general]\nname = \"copy\"\nversion = 1\nedition = 5\nlicense = \"Apache-2.0\"\nbackends = [\"cuda\"]\n\n\
                     [kernel.copy]\nbackend = \"cuda\"\ndepends = []\nsrc = [\"copy.cu\", \"tile.h\"]\n";
pub(super) const KERNEL: &str = r#"format = 1
[[operation]]
name = "copy"
launcher = "copy_launch"
oracle = "transpose"
dtypes = ["f32"]
bytes = "8 * rows"
flops = "0"
arguments = [
  { tensor = "x", role = "input", shape = ["rows"] },
  { tensor = "out", role = "output", shape = ["rows"] },
  { stream = true },
]
[[operation.verify]]
name = "sizes"
rows = [1, 2, 3]
[[operation.bench]]
name = "large"
rows = 4096
"#;

/// A project with two sources, and a folder of proposals beside it.
pub(super) fn project(test: &Test) {
    test.write("task/build.toml", BUILD);
    test.write("task/kernel.toml", KERNEL);
    test.write("task/copy.cu", source(256));
    test.write("task/tile.h", "#pragma once\n#define TILE 128\n");
    fs::create_dir_all(test.at("proposals")).unwrap();
}

fn source(threads: u32) -> String {
    format!(
        "#include <cuda_runtime.h>\n#include \"tile.h\"\n__global__ void copy(const float* x, float* out) {{\n  \
         out[blockIdx.x * {threads} + threadIdx.x] = x[blockIdx.x * {threads} + threadIdx.x];\n}}\n\
         extern \"C\" int copy_launch(const float* x, float* out, cudaStream_t stream) {{\n  \
         copy<<<1, {threads}, 0, stream>>>(x, out);\n  return cudaGetLastError();\n}}\n"
    )
}

/// What `status --json` says of each candidate: its standing and the names of what was caught.
pub(super) fn standings(test: &Test, run: &str) -> BTreeMap<u64, (String, Vec<String>)> {
    let report = test.json(&format!("search status {run}"));
    let names = |row: &Value| {
        row["findings"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let rows = report["candidates"].as_array().unwrap().iter();
    rows.map(|row| (row["candidate"].as_u64().unwrap(), (row["standing"].as_str().unwrap().to_owned(), names(row))))
        .collect()
}

/// The events without times, and without digests of what has times.
pub(super) fn archive(run: &Path) -> Vec<Value> {
    fn timeless(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for key in ["time", "seconds", "started", "ended", "verified", "timed", "folder"] {
                    map.remove(key);
                }
                map.values_mut().for_each(timeless);
            }
            Value::Array(all) => all.iter_mut().for_each(timeless),
            _ => {}
        }
    }
    let text = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let mut events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    events.iter_mut().for_each(timeless);
    events
}

fn proposals(test: &Test) {
    let edit = |file: &str, from: &str, to: &str| {
        format!("One change.\nFILE: {file}\n<<<<<<< SEARCH\n{from}\n=======\n{to}\n>>>>>>> REPLACE\n")
    };
    test.write("proposals/01-good/copy.cu", source(512));
    test.write("proposals/02-again/copy.cu", format!("// faster\n{}", source(512)));
    test.write("proposals/03-kernel-toml/kernel.toml", KERNEL.replace("f32", "f16"));
    test.write("proposals/04-reference/reference.py", "def copy(x): return x\n");
    test.write("proposals/05-tests/tests/test_copy.py", "");
    fs::create_dir_all(test.at("proposals/06-link")).unwrap();
    symlink("/etc/passwd", test.at("proposals/06-link/copy.cu")).unwrap();
    test.write("proposals/07-absolute.md", edit("/etc/passwd", "root", "toor"));
    test.write("proposals/08-above.md", edit("../task/copy.cu", "copy", "cop"));
    fs::create_dir_all(test.at("proposals/09-large")).unwrap();
    fs::File::create(test.at("proposals/09-large/copy.cu")).unwrap().set_len(100 << 20).unwrap();
    test.write("proposals/10-tile.md", edit("tile.h", "#define TILE 128", "#define TILE 64"));
    test.write("proposals/11-prose.md", "I would use shared memory.\n");
    symlink(test.at("task"), test.at("proposals/12-linked-folder")).unwrap();
    test.write("proposals/tile.h", "#pragma once\n#define TILE 32\n");
}

#[test]
fn what_touches_more_than_sources_is_refused_by_name_and_nothing_is_taken_for_judged() {
    let test = Test::new();
    project(&test);
    proposals(&test);
    let ran = test.ok("search run task --proposer dir:proposals --out run --flight 4");
    ran.expect(0, &["not compiled: no nvcc", "frozen-file", "not judged"]);
    let all = standings(&test, "run");
    let name = |id: u64| all[&id].1.join(",");
    let standing = |id: u64| all[&id].0.as_str();
    for id in [0, 1, 10, 13] {
        assert_eq!(standing(id), "not-judged", "{id}: {all:#?}");
    }
    assert_eq!((standing(2), name(2).as_str()), ("same", "not-novel"));
    for id in [3, 4, 5] {
        assert_eq!((standing(id), name(id).as_str()), ("caught", "frozen-file"), "{id}");
    }
    let rest = [6, 7, 8, 9, 11, 12].map(name);
    assert_eq!(rest, ["not-a-file", "path-refused", "path-refused", "too-large", "no-edit", "not-a-file"]);
    // The task is as it was, and a change of it is noticed.
    assert_eq!(fs::read_to_string(test.at("task/kernel.toml")).unwrap(), KERNEL);
    test.run("search show 3 run").expect(0, &["frozen-file", "kernel.toml may not be changed", "copy.cu, tile.h"]);
    test.run("search show 99 run").expect(2, &["it has 0 to 13"]);
    test.run("search compare 0 10 run").expect(0, &["-#define TILE 128", "+#define TILE 64"]);
    test.write("run/task/kernel.toml", KERNEL.replace("4096", "1"));
    test.run("search resume run").expect(1, &["is not the task that the run began with"]);
}

#[test]
fn a_run_that_was_killed_after_any_event_goes_on_to_the_same_archive_and_asks_nobody_twice() {
    let test = Test::new();
    project(&test);
    let script =
        "echo asked >> \"$LOG\"; n=$(cat tile.h | tr -dc 0-9); echo \"#define TILE $((n + 1))\" > tile.h; echo wider";
    test.write("mutate.sh", script);
    let line = format!("exec:sh {}", test.at("mutate.sh").display());
    let run = |words: &[&str]| {
        let mut command = test.command();
        command.env("LOG", test.at("log")).arg("search").args(words);
        Ran::ok(&mut command)
    };
    let begin = |out: &str| {
        run(&["run", "task", "--proposer", &line, "--out", out, "--flight", "2", "--budget", "evals=6", "--seed", "3"]);
    };
    begin("whole");
    begin("twice");
    let whole = archive(&test.at("whole"));
    assert_eq!(whole, archive(&test.at("twice")), "the same seed and the same answers");
    let asked = fs::read_to_string(test.at("log")).unwrap().lines().count();
    let text = fs::read_to_string(test.at("whole/events.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for kept in 2..=lines.len() {
        // A torn line after it, as a power cut leaves one.
        let torn = lines.get(kept).map_or("", |line| &line[..line.len() / 2]);
        fs::write(test.at("whole/events.jsonl"), format!("{}\n{torn}", lines[..kept].join("\n"))).unwrap();
        run(&["resume", "whole"]);
        let mut resumed = archive(&test.at("whole"));
        let mut expected = whole.clone();
        for events in [&mut resumed, &mut expected] {
            // What ended is resumed, and ends again.
            events.retain(|event| event["kind"] != "resumed" && event["kind"] != "ended");
            for (seq, event) in events.iter_mut().enumerate() {
                event["seq"] = seq.into();
            }
        }
        assert_eq!(resumed, expected, "killed after event {kept}");
    }
    assert_eq!(fs::read_to_string(test.at("log")).unwrap().lines().count(), asked, "an answer was paid twice");
}

/// A process that leaves its group holds the pipe of what is printed.
#[test]
fn search_run_proposer_exec_that_leaves_a_process_behind() {
    let test = Test::new();
    project(&test);
    let begun = Instant::now();
    let line = "exec:setsid sleep 60 & echo started";
    let words = ["search", "run", "task", "--proposer", line, "--out", "run", "--patience", "5", "--stall", "1"];
    Ran::ok(test.command().args(words).args(["--flight", "1"]));
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    assert_eq!(standings(&test, "run")[&1].1, ["not-novel"]);
    test.run("search show 1 run").expect(0, &["started"]);
}

#[test]
fn what_cannot_be_run_says_so() {
    let test = Test::new();
    project(&test);
    test.run("search run task --proposer guess")
        .expect(2, &["a proposer is dir:PATH, exec:COMMAND, sweep, agent:NAME[:MODEL] or http:URL#MODEL"]);
    test.run("search run task --proposer sweep").expect(1, &["has no table to tune", "[[tuning]]"]);
    test.run("search run task --proposer dir:nowhere").expect(1, &["cannot read the folder"]);
    test.run("search run task --proposer dir:proposals --budget hours=1")
        .expect(2, &["a budget has usd, minutes, evals"]);
    test.run("search status nowhere").expect(1, &["is not a run"]);
    assert!(!test.at("search").exists(), "nothing is written before it is known that a run can begin");
    test.ok("search run task --proposer dir:proposals --out run");
    test.run("search run task --proposer dir:proposals --out run").expect(3, &["holds a run already", "search resume"]);
}

/// What lies in the project is copied, and shown to proposers. A clone's link leads to what is not the project's.
#[test]
fn search_run_of_a_project_with_a_link_out_of_it() {
    let test = Test::new();
    project(&test);
    let secret = test.home.join("token");
    fs::write(&secret, "a secret\n").unwrap();
    symlink(&secret, test.at("task/notes.h")).unwrap();
    let typed = "search run task --proposer dir:proposals --out run";
    let ran = test.run(typed);
    ran.expect(1, &["task/notes.h is a link out of the project's folder"]);
    assert!(!test.at("run/task").exists() && !ran.err.contains("a secret"));
    // One that stays inside is a file like others; the failed start is in nobody's way.
    fs::remove_file(test.at("task/notes.h")).unwrap();
    symlink("tile.h", test.at("task/notes.h")).unwrap();
    test.ok(typed);
    for name in ["build.toml", "kernel.toml"] {
        fs::rename(test.at("task").join(name), test.at(name)).unwrap();
        symlink(&secret, test.at("task").join(name)).unwrap();
        for typed in ["build task", "check task", "ci task", "search run task --proposer dir:proposals --out other"] {
            let ran = test.run(typed);
            assert!(ran.code == 1 && !format!("{}{}", ran.out, ran.err).contains("a secret"), "{typed}: {ran:#?}");
        }
        fs::rename(test.at(name), test.at("task").join(name)).unwrap();
    }
}

#[test]
fn search_run_out_is_a_new_folder() {
    let test = Test::new();
    project(&test);
    test.write("notes/task/kernel.toml", "mine\n");
    fs::create_dir(test.at("empty")).unwrap();
    let before = picture(&test.project);
    for out in ["notes", "task", "."] {
        let typed = format!("search run task --proposer dir:proposals --out {out}");
        test.run(&typed).expect(3, &["is not empty", "--out"]);
    }
    test.run("search run task --proposer nope --out run").expect(2, &["--proposer `nope`"]);
    assert!(picture(&test.project) == before);
    test.ok("search run task --proposer dir:proposals --out empty");
}

/// The proposals are those of the folder that was named, wherever the run goes on.
#[test]
fn search_resume_from_another_folder() {
    let test = Test::new();
    project(&test);
    test.ok("search run task --proposer dir:proposals --out run --budget evals=1");
    fs::create_dir(test.at("other")).unwrap();
    test.write("proposals/late/copy.cu", source(128));
    test.run_in(&test.at("other"), "search resume ../run --budget evals=3").expect(0, &["ended"]);
    assert_eq!(standings(&test, "run").len(), 2);
}

/// A terminal's interrupt does not reach a command with a group of its own, and its time would not be limited any more.
#[test]
fn search_run_that_is_stopped_leaves_no_command_behind() {
    let test = Test::new();
    project(&test);
    let pid = test.at("pid");
    let line = format!("exec:setsid sleep 300 & echo $! > {}; wait", pid.display());
    for signal in [Signal::INT, Signal::TERM] {
        let words = ["search", "run", "task", "--proposer", &line, "--out", &format!("run-{}", signal.as_raw())];
        let mut run =
            test.command_with_signals().args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let command = || fs::read_to_string(&pid).ok()?.trim().parse().ok();
        wait_until("a command runs", || command().is_some());
        let command: i32 = command().unwrap();
        kill_process(Pid::from_child(&run), signal).unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(128 + signal.as_raw()));
        let stat = format!("/proc/{command}/stat");
        wait_until("it has ended", || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
        fs::remove_file(&pid).unwrap();
    }
    // What it was started to ignore, as by nohup, it ignores.
    let script =
        "trap '' HUP; exec \"$0\" search run task --proposer 'exec:kill -HUP $PPID' --out ignored --budget evals=2";
    Ran::of(test.command_of("/bin/sh").args(["-c", script, program()])).expect(0, &["ended"]);
}
