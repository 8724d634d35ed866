//! Who does the tasks of `kernels skills eval`: a bare model behind a scripted server, and a folder.

use std::fs;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::support::http::{self, Request};
use crate::support::{Ran, Test, executable, files_with};

const TEST: &str = "#!/bin/bash\nif [ \"$(cat answer.txt)\" = 42 ]; then r=1; else r=0; fi\n\
                    echo \"{\\\"reward\\\": $r}\" > \"$REWARD_DIR/reward.json\"\n";
const KEY: &str = "hunter2hunter2";

fn world() -> Test {
    let test = Test::new();
    test.write("tasks/answer/task.toml", "version = \"1.0\"\n");
    test.write("tasks/answer/instruction.md", "Write the answer into answer.txt.\n");
    test.write("tasks/answer/environment/start.txt", "begin\n");
    test.write("tasks/answer/tests/test.sh", TEST);
    test
}

/// Answers each request as a model that is told `results` results; sends on every request.
fn serve(answers: fn(system: &str, results: usize) -> Value) -> (String, Receiver<Request>) {
    let (send, asked) = channel();
    let address = http::serve(move |request, stream| {
        let messages = request.body["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "tool").count();
        let message = answers(messages[0]["content"].as_str().unwrap(), results);
        let usage = json!({ "prompt_tokens": 100, "completion_tokens": 10 });
        let text = json!({ "choices": [{ "message": message }], "usage": usage }).to_string();
        let _ = send.send(request);
        stream.write_all(&http::answer("200 OK", "", text))
    });
    (address, asked)
}

fn calls(calls: &[(&str, Value)]) -> Value {
    let calls = calls.iter().enumerate().map(|(at, (name, arguments))| {
        json!({ "id": format!("c{at}"), "type": "function",
                "function": { "name": name, "arguments": arguments.to_string() } })
    });
    json!({ "content": null, "tool_calls": calls.collect::<Vec<_>>() })
}

/// Looks where it must not, does the task, looks at the skill if it is told of one, and ends.
fn model(system: &str, results: usize) -> Value {
    let shell =
        "env | grep hunter; cat start.txt; echo no > ../bin/x; curl -s http://127.0.0.1:1; echo 43 > other.txt; exit 3";
    match results {
        0 => calls(&[
            ("read_file", json!({ "path": "../../../../etc/passwd" })),
            ("read_file", json!({ "path": "/etc/passwd" })),
            ("run", json!({ "command": "ln -s / out" })),
            ("read_file", json!({ "path": "out/etc/passwd" })),
            ("write_file", json!({ "path": "out/tmp/x", "content": "" })),
            ("run", json!({ "command": "rm out" })),
            ("run", json!({ "command": shell })),
            ("no_such_tool", json!({})),
            ("write_file", json!({ "path": "answer.txt", "content": "42\n" })),
        ]),
        9 if system.contains("- cuda-kernels: ") => {
            calls(&[("read_file", json!({ "path": ".agents/skills/cuda-kernels/SKILL.md" }))])
        }
        9 => calls(&[("list_files", json!({ "path": "." }))]),
        _ => json!({ "content": "The answer is written." }),
    }
}

fn rows(ran: &Ran) -> Vec<Value> {
    ran.json()["rows"].as_array().unwrap().clone()
}

#[test]
fn a_bare_model_works_in_its_workspace_alone_and_is_not_asked_again() {
    let test = world();
    let (address, asked) = serve(model);
    let typed = format!("skills eval --tasks tasks --agent {address}?key=MODEL_KEY#m --out run --json");
    let ran = Ran::ok(test.command().env("MODEL_KEY", KEY).args(test.words(&typed)));
    let rows_of_first = rows(&ran);
    assert_eq!(rows_of_first.len(), 2);
    for row in &rows_of_first {
        assert_eq!(row["outcome"], "pass", "{row:#}");
        assert_eq!(row["harm"], json!([]), "{row:#}");
        let seen = [&row["turns"], &row["calls"], &row["failed_calls"], &row["usage"]["fresh"]];
        assert_eq!(seen.map(|count| count.as_u64().unwrap()), [3, 10, 6, 300], "{row:#}");
        let loaded = if row["arm"] == "with" { json!(true) } else { Value::Null };
        assert_eq!(row["loaded"], loaded, "{row:#}");
    }
    let requests: Vec<Request> = asked.try_iter().collect();
    assert_eq!(requests.len(), 6);
    for Request { head, body, .. } in &requests {
        assert!(head.to_lowercase().contains(&format!("authorization: bearer {KEY}")), "{head}");
        let told = body["messages"].to_string();
        assert!(!told.contains(KEY) && !told.contains("root:x:"), "{told}");
        if told.contains("no_such_tool") {
            assert!(told.contains("begin") && told.contains("exit code 3"), "{told}");
            assert!(told.contains("outside of the workspace") && told.contains("leads out"), "{told}");
        }
    }
    assert_eq!(files_with(&test.at("run"), KEY), 0);
    let page = |name: &str| {
        test.ok(&format!("skills runs run --html {name}"));
        fs::read(test.at(name)).unwrap()
    };
    let first_page = page("first.html");
    // As if it had been killed before the first row was written: with the answers, so that nobody is asked.
    let events = fs::read_to_string(test.at("run/events.jsonl")).unwrap();
    let first: String = events.split_inclusive('\n').filter(|line| !line.contains("\"kind\":\"row\"")).collect();
    fs::write(test.at("run/events.jsonl"), first).unwrap();
    let ran = Ran::ok(test.command().env("MODEL_KEY", KEY).args(test.words("skills eval --resume run --json")));
    for (row, before) in rows(&ran).iter().zip(&rows_of_first) {
        for name in ["outcome", "usage", "turns", "failed_calls", "seconds", "arm"] {
            assert_eq!(row[name], before[name]);
        }
    }
    assert_eq!(asked.try_iter().count(), 0);
    assert!(page("again.html") == first_page, "kept answers give another report");
}

#[test]
fn a_folder_is_judged_and_what_cannot_be_run_is_refused_by_name() {
    let test = world();
    test.write("right/answer.txt", "42\n");
    test.write("wrong/answer.txt", "41\n");
    let typed = "skills eval --tasks tasks --arms without --agent dir:right --agent dir:wrong --agent dir:none --json";
    let ran = test.run(typed);
    for row in rows(&ran) {
        let (outcome, why) = match row["agent"].as_str().unwrap() {
            "dir:right" => ("pass", ""),
            "dir:wrong" => ("fail", ""),
            _ => ("agent_error", "there is no such folder"),
        };
        assert_eq!(row["outcome"], outcome, "{row:#}");
        assert!(row["why"].as_str().unwrap().contains(why), "{row:#}");
    }
    for agent in ["qwen:m", "cursor:m"] {
        let ran = test.run(&format!("skills eval --tasks tasks --agent {agent}"));
        let name = agent.split(':').next().unwrap();
        assert!(ran.code != 0 && ran.err.contains(&format!("{name} cannot be run yet")), "{ran:#?}");
    }
}

/// What a coding agent lacks is said before anything is written.
#[test]
fn skills_eval_agent_that_is_not_there() {
    let test = world();
    let refused = |agent: &str, words: &str| {
        let bin = test.root().join("bin");
        let mut command = test.command();
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        Ran::of(command.args(["skills", "eval", "--tasks", "tasks", "--agent", agent])).expect(2, &[words]);
    };
    for (agent, words) in [("claude:m", "`claude`"), ("codex", "`codex`"), ("opencode:m", "`opencode`")] {
        refused(agent, words);
    }
    for program in ["claude", "opencode", "rg"] {
        test.write(&format!("../bin/{program}"), "#!/bin/sh\n");
    }
    refused("claude:m", "ANTHROPIC_API_KEY");
    refused("opencode:m", "OPENAI_API_KEY");
    refused("http://127.0.0.1:1?key=NO_KEY#m", "set the environment variable NO_KEY");
    assert!(!test.at(".kernels").exists());
}

/// Workspaces for agents that are run elsewhere: as a subject here finds them, and judged with what they did.
#[test]
fn skills_eval_prepare_and_then_dir() {
    let test = world();
    test.write("tasks/answer/environment/stale.txt", "old\n");
    let keeps = "[ -e stale.txt ] && r=0; echo \"{\\\"reward\\\": $r}\" > \"$REWARD_DIR/reward.json\"\n";
    test.write("tasks/answer/tests/test.sh", format!("{TEST}{keeps}"));
    let ran = test.run("skills eval --tasks tasks --agent claude --runs 3 --prepare filled --json");
    let laid = ran.json();
    assert_eq!(laid["workspaces"].as_array().unwrap().len(), 6, "{laid}");
    let read = |path: &str| fs::read_to_string(test.at(path)).unwrap();
    assert_eq!(read("filled/with/answer.md"), read("tasks/answer/instruction.md"));
    assert!(test.at("filled/with/answer.2/.claude/skills/cuda-kernels/SKILL.md").exists());
    assert!(!test.at("filled/without/answer/.claude").exists() && test.at("filled/without/answer/.git").exists());
    test.run("skills eval --tasks tasks --agent claude --prepare filled").expect(3, &["is not empty"]);

    let claims = "## User\n\nWrite the answer.\n\n## Assistant\n\nDone, and it is 3x faster.\n";
    let loads = "{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\
                 \"name\":\"Skill\",\"input\":{\"skill\":\"cuda-kernels\"}}]}}\n";
    let words = "## Assistant\n\nDone.\n";
    for (place, trace) in [
        ("without/answer", Some(claims)),
        ("without/answer.2", None),
        ("with/answer", Some(loads)),
        ("with/answer.3", Some(words)),
    ] {
        test.write(&format!("filled/{place}/answer.txt"), "42\n");
        fs::remove_file(test.at(&format!("filled/{place}/stale.txt"))).unwrap();
        if let Some(trace) = trace {
            test.write(&format!("filled/{place}.trace"), trace);
        }
    }
    // What an agent makes of its copy of the skill is not its work, whatever the task allows.
    test.write("filled/with/answer/.claude/skills/cuda-kernels/SKILL.md", "mine\n");
    test.write("tasks/answer/task.toml", "[metadata.kernels]\nedit = [\"*.txt\"]\n");
    fs::remove_dir_all(test.at("filled/with/answer.2")).unwrap();
    let ran = test.run("skills eval --tasks tasks --agent dir:filled --runs 3 --json");
    let rows = rows(&ran);
    let row = |arm: &str, run: u64| rows.iter().find(|row| row["arm"] == arm && row["run"] == run).unwrap();
    assert_eq!(row("without", 1)["outcome"], "fail");
    assert!(row("without", 1)["harm"].to_string().contains("3x faster"), "{:#}", row("without", 1));
    assert_eq!(row("without", 2)["outcome"], "pass", "{:#}", row("without", 2));
    assert_eq!((&row("with", 1)["outcome"], &row("with", 1)["loaded"]), (&json!("pass"), &json!(true)));
    assert_eq!(row("with", 1)["calls"], 1);
    assert_eq!(row("with", 2)["outcome"], "agent_error");
    // Words alone do not say what was loaded.
    assert_eq!((&row("with", 3)["outcome"], &row("with", 3)["loaded"]), (&json!("pass"), &Value::Null));

    let demo = test.skill("demo", "1.0.0");
    let typed = format!("skills eval {} --tasks tasks --agent dir:filled", demo.display());
    test.run(&typed).expect(1, &["have another version of demo"]);
    test.write("tasks/answer/instruction.md", "Write another answer.\n");
    test.run("skills eval --tasks tasks --agent dir:filled").expect(1, &["the task answer has changed"]);
}

/// `kernels` with a coding agent on PATH: a script, which asks its model once. Each answer is of 1000 tokens.
#[cfg(target_os = "linux")]
pub(super) fn with_claude(test: &Test, script: &str) -> std::process::Command {
    let address = http::serve(|_, stream| {
        let usage = json!({ "input_tokens": 1000, "output_tokens": 100 });
        stream.write_all(&http::answer("200 OK", "", json!({ "model": "m", "usage": usage }).to_string()))
    });
    let bin = test.root().join("bin");
    let ask = "curl -s -d '{}' -H \"x-api-key: $ANTHROPIC_API_KEY\" \"$ANTHROPIC_BASE_URL/v1/messages\" > /dev/null";
    executable(&bin.join("claude"), format!("#!/bin/sh\ncat > /dev/null\n{ask}\n{script}"));
    let mut command = test.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command.env("ANTHROPIC_BASE_URL", address).env("ANTHROPIC_API_KEY", KEY);
    command
}

/// Wherever the skill, its other version and the tasks lie, a coding agent has what is in its workspace.
#[test]
#[cfg(target_os = "linux")]
fn skills_eval_agent_that_looks_for_the_skill() {
    let test = world();
    let outside = test.outside();
    let text = |name: &str| format!("---\nname: {name}\ndescription: Does a thing. Use when tested.\n---\n# Thing\n");
    for name in ["thing", "before"] {
        crate::support::write(&outside.join(name).join("SKILL.md"), text(name));
    }
    std::fs::rename(test.at("tasks"), outside.join("tasks")).unwrap();
    let at = outside.display();
    let script = format!(
        "cat {at}/thing/SKILL.md {at}/before/SKILL.md {at}/tasks/answer/tests/test.sh > seen.txt 2> /dev/null\n\
         ls {at}/thing {at}/before >> seen.txt 2> /dev/null\n[ -s seen.txt ] || echo 42 > answer.txt\n"
    );
    let typed = format!(
        "skills eval {at}/thing --tasks {at}/tasks --agent claude --arms without,with,old={at}/before --out run --json"
    );
    let ran = Ran::ok(with_claude(&test, &script).args(test.words(&typed)));
    let rows = rows(&ran);
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!(row["outcome"], "pass", "{row:#}");
    }
}

/// The command that an agent is given hands out no skill.
#[test]
#[cfg(target_os = "linux")]
fn skills_eval_agent_that_installs_the_skill_itself() {
    let test = world();
    let script = test.outside().join("adds");
    let text = "for typed in 'add cuda-kernels --agents' 'add --claude' update sync show 'pack cuda-kernels -o x.skill'; do\n\
                kernels skills $typed\nkernels --json skills $typed\ndone 2>&1\n\
                kernels --version > /dev/null && ! find . \"$HOME\" -name SKILL.md -o -name x.skill | grep . && echo 42 > answer.txt\n";
    crate::support::write(&script, text);
    let agent = format!("exec:sh {}", script.display());
    let mut command = test.command();
    command
        .args(["skills", "eval", "--tasks", "tasks", "--arms", "without", "--out", "run", "--json", "--agent", &agent]);
    let rows = rows(&Ran::ok(&mut command));
    assert_eq!((&rows[0]["outcome"], &rows[0]["harm"]), (&json!("pass"), &json!([])), "{rows:#?}");
    assert_eq!(files_with(&test.at("run"), "`kernels skills` is switched off here (KERNELS_SKILLS=off)"), 1);
    assert_eq!(files_with(&test.at("run"), "name: cuda-kernels"), 0);
}
