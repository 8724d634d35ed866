//! `kernels search` on a machine that fails, or is another one later: nothing of that becomes a finding about a candidate.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::search::{project, standings};
use crate::support::{Ran, Test, wait_until};

/// A compiler that compiles nothing. Of a source with this word it says that it was killed, and with another one it waits.
const NVCC: &str = "#!/bin/sh\ncase \"$*\" in\n*--version*) echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit ;;\n\
                    *--list-gpu-*) echo sm_90; exit ;;\nesac\nwhile read -r line; do case \"$line\" in\n\
                    *DEVOURS*) echo \"nvcc error   : 'cicc' died due to signal 9 (Kill signal)\" >&2; exit 9 ;;\n\
                    *WAITS*) \"${0%/*}/sleep\" 60 ;;\nesac; done < copy.cu\necho 'error: no' >&2; exit 2\n";

fn compiler(test: &Test, text: &str) {
    test.write("cuda/bin/nvcc", text);
    // Compilers may run what lies beside them, and no other program. That of a killed worker may still run.
    if !test.at("cuda/bin/sleep").exists() {
        fs::copy("/bin/sleep", test.at("cuda/bin/sleep")).unwrap();
    }
    fs::set_permissions(test.at("cuda/bin/nvcc"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn search(test: &Test, typed: &str) -> Command {
    let mut command = test.command();
    command.env("CUDA_HOME", test.at("cuda")).arg("search").args(test.words(typed));
    command
}

fn propose(test: &Test, name: &str, word: &str) {
    let source = fs::read_to_string(test.at("task/copy.cu")).unwrap();
    test.write(&format!("proposals/{name}/copy.cu"), format!("const int {name} = 1; // {word}\n{source}"));
}

#[test]
fn search_run_without_a_temporary_folder() {
    let test = Test::new();
    project(&test);
    propose(&test, "first", "");
    let typed = "search run task --proposer dir:proposals --out run";
    let ran = Ran::of(test.command().env("TMPDIR", test.at("nowhere")).args(test.words(typed)));
    let words = ["cannot make a folder for temporary files", "no finding about a candidate", "search resume"];
    ran.expect(1, &words);
    test.ok("search resume run");
    let all = standings(&test, "run");
    assert!(
        all.len() == 2 && all.values().all(|(standing, kinds)| standing == "not-judged" && kinds.is_empty()),
        "{all:#?}"
    );
}

#[test]
fn search_run_whose_worker_is_killed() {
    let test = Test::new();
    project(&test);
    compiler(&test, NVCC);
    let source = fs::read_to_string(test.at("task/copy.cu")).unwrap();
    test.write("task/copy.cu", format!("// WAITS\n{source}"));
    let mut run = search(&test, "run task --proposer dir:proposals --out run");
    let run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let worker = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let mut of_the_run = all.filter(|process| {
            let line = fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
            line.contains("__worker") && line.contains(&format!("{}\"", test.at("run").display()))
        });
        of_the_run.find_map(|process| process.file_name().to_str()?.parse::<i32>().ok())
    };
    wait_until("a worker compiles", || worker().is_some());
    std::thread::sleep(Duration::from_millis(200));
    kill_process(Pid::from_raw(worker().unwrap()).unwrap(), Signal::KILL).unwrap();
    let ended = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("SIGKILL") && said.contains("search resume"), "{said}");
    compiler(&test, &NVCC.replace("60", "0"));
    Ran::ok(&mut search(&test, "resume run"));
    assert_eq!(standings(&test, "run")[&0].1, ["does-not-compile"]);
}

/// What fails with one candidate and not with the project as it was is the candidate's: else no run with it could go on.
#[test]
fn search_run_with_a_candidate_that_makes_its_worker_fail() {
    let test = Test::new();
    project(&test);
    compiler(&test, NVCC);
    propose(&test, "first", "DEVOURS");
    propose(&test, "second", "");
    Ran::ok(&mut search(&test, "run task --proposer dir:proposals --out run"));
    let all = standings(&test, "run");
    assert_eq!([0, 1, 2].map(|id| all[&id].1[0].as_str()), ["does-not-compile", "failed", "does-not-compile"]);
    test.run("search show 1 run").expect(0, &["died due to signal 9"]);
    // It fails with the project as it was, too.
    compiler(&test, &NVCC.replace("*DEVOURS*", "*"));
    let mut all = search(&test, "run task --proposer dir:proposals --out all");
    Ran::of(&mut all).expect(1, &["died due to signal 9", "no finding about a candidate"]);
    compiler(&test, NVCC);
    Ran::ok(&mut search(&test, "resume all"));
    assert_eq!(standings(&test, "all")[&2].1, ["does-not-compile"]);
}

#[test]
fn search_resume_with_another_compiler_or_program() {
    let test = Test::new();
    project(&test);
    compiler(&test, NVCC);
    Ran::ok(&mut search(&test, "run task --proposer dir:proposals --out run"));
    let resumed = || Ran::of(&mut search(&test, "resume run --budget evals=9"));
    resumed().expect(0, &["ended"]);
    compiler(&test, &NVCC.replace("13.0.88", "13.1.20"));
    resumed().expect(1, &["with nvcc 13.0.88, and this machine has 13.1.20", "would not be comparable", "--answers"]);
    fs::remove_dir_all(test.at("cuda")).unwrap();
    test.run("search resume run").expect(1, &["with nvcc 13.0.88, and there is none here"]);
    compiler(&test, NVCC);
    let events = fs::read_to_string(test.at("run/events.jsonl")).unwrap();
    let version = format!("\"version\":\"{}\"", test.ok("--version").out.trim().trim_start_matches("kernels "));
    assert!(events.contains(&version), "no {version} in {events}");
    test.write("run/events.jsonl", events.replacen(&version, "\"version\":\"0.0.1\"", 1));
    resumed().expect(1, &["by kernels 0.0.1, and this is "]);
    // Without a compiler, and then with one.
    fs::rename(test.at("cuda"), test.at("away")).unwrap();
    test.ok("search run task --proposer dir:proposals --out bare");
    fs::rename(test.at("away"), test.at("cuda")).unwrap();
    Ran::of(&mut search(&test, "resume bare")).expect(1, &["without nvcc, and this machine has 13.0.88"]);
}

#[test]
fn search_run_with_edits_in_a_text() {
    let test = Test::new();
    project(&test);
    test.write("task/tile.h", "#pragma once\n#define TILE 128\nint none;\nint a;\n  int a;\n");
    let edit = |search: &str| format!("FILE: tile.h\n<<<<<<< SEARCH\n{search}\n=======\nint b;\n>>>>>>> REPLACE\n");
    test.write("proposals/1-within.md", edit("one;"));
    test.write("proposals/2-line.md", edit("int a;"));
    test.write("proposals/3-twice.md", edit("int none;") + "FILE: tile.h\n```cpp\n#pragma once\n```\n");
    test.ok("search run task --proposer dir:proposals --out run --flight 1");
    let all = standings(&test, "run");
    assert_eq!([1, 3].map(|id| all[&id].1[0].as_str()), ["search-not-found", "edited-twice"]);
    test.run("search compare 0 2 run").expect(0, &["-int a;", "+int b;\n   int a;"]);
}
