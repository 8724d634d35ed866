//! `kernels search run --proposer agent:claude` with an agent of our own making: what it cannot read, and a trace without a word.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::json;

use super::search::{project, standings};
use crate::support::{Ran, Test, copy, http};

/// Asks its model, looks for the project where it lies, and prints nothing.
const AGENT: &str = "#!/bin/sh\ncurl -s -H \"x-api-key: $ANTHROPIC_API_KEY\" -d '{\"model\":\"m\",\"max_tokens\":9,\"messages\":[]}' \
                     \"$ANTHROPIC_BASE_URL/v1/messages\" > /dev/null\n\
                     if cat ORIGIN/copy.cu > /dev/null 2>&1; then echo 'int seen;' >> copy.cu; fi\necho 'int changed;' >> copy.cu\n";

/// A project outside of the home and of the current folder, and an agent.
fn world(test: &Test) {
    project(test);
    let origin = test.root().join("elsewhere/task");
    copy(&test.at("task"), &origin);
    fs::remove_dir_all(test.at("task")).unwrap();
    let agent = test.root().join("bin/claude");
    fs::create_dir(agent.parent().unwrap()).unwrap();
    fs::write(&agent, AGENT.replace("ORIGIN", origin.to_str().unwrap())).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
}

fn search(test: &Test, address: &str, typed: &str) -> Command {
    let mut command = test.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", test.root().join("bin").display()));
    command.env("ANTHROPIC_BASE_URL", address).env("ANTHROPIC_API_KEY", "sk-hunter2");
    command.arg("search").args(test.words(typed));
    command
}

#[test]
fn search_run_proposer_agent() {
    let test = Test::new();
    world(&test);
    let address = http::serve(|_, stream| {
        let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
        let text = json!({ "type": "message", "model": "m", "content": [], "stop_reason": "end_turn", "usage": usage });
        stream.write_all(&http::answer("200 OK", "Content-Type: application/json\r\n", text.to_string()))
    });
    let typed = "run ../elsewhere/task --proposer agent:claude:m --out run --flight 1 --budget evals=2";
    Ran::ok(&mut search(&test, &address, typed));
    let standing = |run: &str| standings(&test, run)[&1].0.clone();
    assert_eq!(standing("run"), "not-judged", "a trace without a word ended the run");
    let seen = test.ok("search compare 0 1 run").out;
    assert!(seen.contains("+int changed") && !seen.contains("seen"), "the agent read the project: {seen}");
    // The same from another folder.
    let events = fs::read_to_string(test.at("run/events.jsonl")).unwrap();
    let first: Vec<&str> = events.split_inclusive('\n').take(2).collect();
    test.write("run/events.jsonl", first.concat());
    for kept in ["answer-0.json", "answer-1.json"] {
        fs::remove_file(test.at("run/results").join(kept)).unwrap();
    }
    let away = test.root().join("away");
    fs::create_dir(&away).unwrap();
    let run = test.at("run");
    let resume = format!("resume {}", run.display());
    Ran::ok(search(&test, &address, &resume).current_dir(&away));
    let seen = test.ok("search compare 0 1 run").out;
    assert!(seen.contains("+int changed") && !seen.contains("seen"), "the agent read the project: {seen}");
}
