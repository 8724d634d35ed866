//! `kernels search` with `http:`: a scripted server on loopback is the model.

#![allow(clippy::cast_precision_loss, reason = "counts of a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::search::{archive, project, standings};
use crate::support::http::{self, Request};
use crate::support::{Ran, Test, executable, tree};

/// A model with a known price: 0.001 dollars for 1,000 tokens of a question, 0.0005 for 100 of an answer.
const MODEL: &str = "claude-haiku-4-5";
const KEY: &str = "sk-SECRET-a2f9c1";

/// The requests so far.
type Log = Arc<Mutex<Vec<Request>>>;

/// Answers each request with what `answer` makes of its body and of its number. What is empty closes the connection.
fn serve(answer: impl Fn(&Value, usize) -> Vec<u8> + Send + Sync + 'static) -> (String, Log) {
    let log = Log::default();
    let shared = Arc::clone(&log);
    let address = http::serve(move |request, stream| {
        let body = request.body.clone();
        let number = {
            let mut log = shared.lock().unwrap();
            log.push(request);
            log.len() - 1
        };
        stream.write_all(&answer(&body, number))
    });
    (address, log)
}

/// A chat's answer that ended for this reason.
fn chat(text: &str, reason: &str) -> Vec<u8> {
    let choice = json!({ "message": { "content": text }, "finish_reason": reason });
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 100 });
    http::answer("200 OK", "", json!({ "model": MODEL, "choices": [choice], "usage": usage }).to_string())
}

fn edit(file: &str, from: &str, to: &str) -> String {
    format!("One change.\nFILE: {file}\n<<<<<<< SEARCH\n{from}\n=======\n{to}\n>>>>>>> REPLACE\n")
}

/// A model that answers by the question alone: another tile for each operator.
fn tiles(body: &Value, _: usize) -> Vec<u8> {
    let question = body["messages"][1]["content"].as_str().unwrap();
    let tile = question.split("#define TILE ").nth(1).unwrap();
    let tile: u64 = tile.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    let more = [("small change", 1), ("another design", 16), ("Combine", 256)];
    let more = more.iter().find(|(word, _)| question.contains(word)).map_or(4096, |(_, more)| *more);
    let (old, new) = (format!("#define TILE {tile}"), format!("#define TILE {}", tile + more));
    chat(&edit("tile.h", &old, &new), "stop")
}

fn search(test: &Test, words: &[&str]) -> Command {
    let mut command = test.command();
    command.env("KERNELS_TEST_MODEL_KEY", KEY).arg("search").args(words);
    command
}

fn proposer(address: &str) -> String {
    format!("http:{address}?key=KERNELS_TEST_MODEL_KEY#{MODEL}")
}

fn events(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// The archive without what a resumed run has more, and without the folder of answers.
fn steps(run: &Path) -> Vec<Value> {
    let mut events = archive(run);
    events.retain(|event| event["kind"] != "resumed" && event["kind"] != "ended");
    for (seq, event) in events.iter_mut().enumerate() {
        event["seq"] = seq.into();
        if let Some(settings) = event["data"]["settings"].as_object_mut() {
            settings.remove("answers");
        }
    }
    events
}

#[test]
fn the_same_answers_give_the_same_archive_and_kept_ones_need_no_server_and_no_key() {
    let test = Test::new();
    project(&test);
    let (address, log) = serve(tiles);
    let proposer = proposer(&address);
    let begin = |out: &str, more: &[&str]| {
        let words = ["run", "task", "--proposer", &proposer, "--out", out, "--flight", "2", "--budget", "evals=7"];
        search(&test, &[&words[..], more].concat())
    };
    for out in ["one", "two"] {
        Ran::ok(&mut begin(out, &[]));
    }
    let asked = log.lock().unwrap().len();
    let made = events(&test.at("one")).iter().filter(|event| event["kind"] == "proposed").count();
    assert_eq!(asked, 2 * (made - 1), "each answer once, and none for the start");
    assert!(made > 6);
    assert_eq!(archive(&test.at("one")), archive(&test.at("two")));
    assert_eq!(tree(test.at("one/blobs")), tree(test.at("two/blobs")));
    // From its answers, without a key.
    let answers = test.at("one/answers");
    let mut again = begin("three", &["--answers", answers.to_str().unwrap()]);
    Ran::ok(again.env_remove("KERNELS_TEST_MODEL_KEY"));
    assert_eq!(steps(&test.at("one")), steps(&test.at("three")));
    assert_eq!(tree(test.at("one/blobs")), tree(test.at("three/blobs")));
    assert_eq!(log.lock().unwrap().len(), asked);
}

#[test]
fn a_run_that_is_killed_at_every_event_asks_and_evaluates_nothing_twice() {
    let test = Test::new();
    project(&test);
    let (address, log) = serve(tiles);
    let proposer = proposer(&address);
    let begin = |out: &str| {
        let words = ["run", "task", "--proposer", &proposer, "--out", out, "--flight", "1", "--budget", "evals=5"];
        search(&test, &words)
    };
    Ran::ok(&mut begin("whole"));
    let questions = log.lock().unwrap().len();
    let whole = steps(&test.at("whole"));
    let run = test.at("killed");
    let mut killed = 0;
    let begun = Instant::now();
    let mut under_way = Vec::new();
    while !events(&run).iter().any(|event| event["kind"] == "ended") {
        let (before, old) = (steps_so_far(&run), log.lock().unwrap().len());
        let mut command = if before == 0 { begin("killed") } else { search(&test, &["resume", "killed"]) };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().unwrap();
        // Before its first event is one of the search, a run has not begun.
        while steps_so_far(&run) <= before.max(1) && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        killed += u32::from(kill_process_group(group, Signal::KILL).is_ok());
        child.wait().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(120), "killed {killed} times, {} events", events(&run).len());
        // Without an event for it, an answer may have been under way.
        let asked = log.lock().unwrap().len();
        under_way.extend(asked.checked_sub(1).filter(|_| asked > old));
    }
    assert!(killed > 8, "killed {killed} times");
    assert_eq!(steps(&run), whole);
    let log = log.lock().unwrap();
    let bodies: Vec<&Value> = log[questions..].iter().map(|request| &request.body).collect();
    for (at, body) in bodies.iter().enumerate() {
        let again = bodies[..at].iter().rposition(|earlier| earlier == body);
        assert!(again.is_none_or(|first| under_way.contains(&(questions + first))), "question {at} is paid twice");
    }
    // One file a job, whose first result won. A kill may leave one that was not yet linked, under a hidden name.
    let results = |run: &str| {
        let names = fs::read_dir(test.at(run).join("results")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| !name.to_string_lossy().starts_with('.')).collect::<BTreeSet<_>>()
    };
    assert_eq!(results("killed"), results("whole"));
}

fn steps_so_far(run: &Path) -> usize {
    events(run).iter().filter(|event| event["kind"] != "resumed" && event["kind"] != "ended").count()
}

#[test]
fn what_a_model_answers_is_booked_and_what_is_no_edit_is_caught_by_name() {
    let test = Test::new();
    project(&test);
    let long = |line: &str| line.repeat((1 << 20) / line.len() - 1);
    let nested: String =
        (3..900).rev().map(|n| format!("<<<<<<< SEARCH\nq\n=======\nr\n>>>>>>> R\n{}c\n", "`".repeat(n))).collect();
    let outside = test.outside().join("stolen");
    // The answer, what is caught, and whether it has a cost.
    let cases: Vec<(Vec<u8>, &str, bool)> = vec![
        (chat("<think>FILE: x</think>\nA tile.\nFILE: tile.h\n```cpp\n#define TILE 7\n```\n", "stop"), "", true),
        (chat("I would use shared memory.", "stop"), "no-edit", true),
        (chat(&edit("tile.h", "#define TILE 128", "#define TILE 9"), "length"), "cut-off", true),
        (chat("FILE: tile.h\n```cpp\n#define TI", "stop"), "cut-off", true),
        (chat("", "length"), "no-content", true),
        (chat(&edit("tile.h", "#define TILE 128", "#define TILE 9"), "content_filter"), "refused", true),
        (chat(&edit("../task/tile.h", "#define", "#undef"), "stop"), "path-refused", true),
        (chat(&format!("FILE: {}\n```cpp\nx\n```\n", outside.display()), "stop"), "path-refused", true),
        (chat("FILE: kernel.toml\n```toml\nformat = 1\n```\n", "stop"), "frozen-file", true),
        (chat("FILE: answers/x.json\n```json\n{}\n```\n", "stop"), "frozen-file", true),
        (chat(&"x".repeat(5 << 20), "stop"), "too-large", true),
        (chat(&long("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"), "stop"), "too-large", true),
        (
            chat(&format!("FILE: tile.h\n{}", long("<<<<<<< SEARCH\n#d\n=======\n#d\n>>>>>>> R\n")), "stop"),
            "too-large",
            true,
        ),
        (chat(&format!("FILE: tile.h\n{}c\n{nested}", "`".repeat(901)), "stop"), "cut-off", true),
        (chat(&format!("FILE: {}", "/x".repeat(400_000)), "stop"), "path-refused", true),
        (http::answer("400 Bad Request", "", r#"{"error":{"message":"too long"}}"#), "no-answer", false),
        (http::answer("200 OK", "", "<html></html>"), "no-answer", false),
        (http::answer("200 OK", "", " ".repeat(17 << 20)), "no-answer", false),
    ];
    let answers: Vec<Vec<u8>> = cases.iter().map(|(answer, ..)| answer.clone()).collect();
    // Before the first: what passes when it is asked again.
    let passing = [
        http::answer("429 Too Many Requests", "Retry-After: 0\r\n", "{}"),
        Vec::new(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{\"choices\"".to_vec(),
    ];
    let script = [&passing[..], &answers].concat();
    let (address, log) = serve(move |body, at| script.get(at).cloned().unwrap_or_else(|| tiles(body, at)));
    let count = cases.len();
    let limit = format!("evals={}", 3);
    let words = ["run", "task", "--proposer", &proposer(&address), "--out", "run", "--flight", "1", "--budget", &limit];
    let ran = Ran::ok(&mut search(&test, &words));
    ran.expect(0, &["caught", "path-refused"]);
    let all = standings(&test, "run");
    let report = test.json("search status run");
    for (at, (_, kind, _)) in cases.iter().enumerate() {
        let (standing, findings) = &all[&(at as u64 + 1)];
        let expected = if kind.is_empty() { "not-judged" } else { "caught" };
        assert_eq!((standing.as_str(), findings.join(",").as_str()), (expected, *kind), "answer {at}: {all:#?}");
    }
    let costs: BTreeMap<u64, Value> = events(&test.at("run"))
        .iter()
        .filter(|event| event["kind"] == "proposed")
        .map(|event| (event["data"]["candidate"].as_u64().unwrap(), event["data"]["cost"].clone()))
        .collect();
    for (at, (.., paid)) in cases.iter().enumerate() {
        let cost = &costs[&(at as u64 + 1)];
        let usd = cost["usd"].as_f64();
        assert_eq!(usd.is_some_and(|usd| (usd - 0.0015).abs() < 1e-9), *paid, "answer {at}: {cost}");
        assert_eq!(cost["tokens_in"], if *paid { 1000 } else { 0 });
        assert_eq!(cost["requests"], 1);
    }
    assert_eq!(report["unpriced"], cases.iter().filter(|(.., paid)| !paid).count());
    let paid = cases.iter().filter(|(.., paid)| *paid).count() + all.len() - 1 - count;
    assert!((report["usd"].as_f64().unwrap() - 0.0015 * paid as f64).abs() < 1e-9, "{}", report["usd"]);
    assert_eq!(log.lock().unwrap().len(), passing.len() + all.len() - 1);
    assert!(!outside.exists() && !test.at("run/task/answers").exists());
    assert!(fs::read_to_string(test.at("task/tile.h")).unwrap().contains("TILE 128"));
    assert!(fs::metadata(test.at("run/events.jsonl")).unwrap().len() < 100_000, "findings quote what was answered");
    // What is asked of a model is what the operators say.
    let body = &log.lock().unwrap()[0].body;
    assert!(body["messages"][0]["content"].as_str().unwrap().contains("SEARCH"), "{body}");
}

#[test]
fn a_key_is_nowhere_but_in_the_requests() {
    let test = Test::new();
    project(&test);
    // A compiler that says what it sees of its environment, which becomes a finding.
    let nvcc = test.outside().join("cuda/bin/nvcc");
    let text = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Cuda compilation tools, release 13.0, V13.0.88' && exit\n\
                  [ \"$1\" = --list-gpu-code ] && echo sm_75 sm_80 sm_90 sm_100 && exit\necho \"SEEN $(env)\" >&2\nexit 1\n";
    executable(&nvcc, text);
    // A server that repeats what it is sent.
    let (address, log) = serve(|body, at| {
        let text =
            format!("Key {KEY}.\n{}", edit("tile.h", "#define TILE 128", &format!("#define TILE {at} // {KEY}")));
        if at == 0 {
            http::answer("429 Slow", "Retry-After: 0\r\n", KEY)
        } else if at < 3 {
            chat(&text, "stop")
        } else {
            tiles(body, at)
        }
    });
    let words =
        ["run", "task", "--proposer", &proposer(&address), "--out", "run", "--flight", "1", "--budget", "evals=3"];
    let ran = Ran::ok(search(&test, &words).env("CUDA_HOME", nvcc.parent().unwrap().parent().unwrap()));
    let all = format!("{:?}", tree(test.at("run")));
    assert!(all.contains("SEEN") && all.contains("does-not-compile"), "{ran:#?}\n{all}");
    for text in [&all, &ran.out, &ran.err] {
        assert!(!text.contains(KEY) && !text.contains("a2f9c1"), "{text}");
    }
    let log = log.lock().unwrap();
    assert!(log.len() > 2 && log.iter().all(|one| one.head.contains(KEY) && !one.body.to_string().contains(KEY)));
}

#[test]
fn what_every_question_would_meet_stops_the_run_and_money_is_counted() {
    let test = Test::new();
    project(&test);
    let (address, log) = serve(|body, at| if at == 0 { http::answer("401 No", "", "{}") } else { tiles(body, at) });
    let named = proposer(&address);
    let words = |proposer: &str, budget: &str| {
        let all = ["run", "task", "--proposer", proposer, "--out", "run", "--budget", budget];
        let mut command = search(&test, &all);
        command.env_remove("ANTHROPIC_API_KEY");
        command
    };
    for (code, proposer, budget, said) in [
        (1, named.replace("KERNELS_TEST_MODEL_KEY", "KERNELS_NO_SUCH_KEY"), "evals=1", "KERNELS_NO_SUCH_KEY"),
        (1, "http:https://api.anthropic.com#claude-haiku-4-5".to_owned(), "evals=1", "ANTHROPIC_API_KEY"),
        (1, format!("http:{address}#own-model"), "usd=1", "the price of own-model is not known"),
        (2, format!("http:{address}?key={}#m", "sk-hunter2"), "evals=1", "never a key"),
        (2, format!("http:{address}"), "evals=1", "an address without a model"),
    ] {
        let ran = Ran::of(&mut words(&proposer, budget));
        ran.expect(code, &[said]);
        assert!(!ran.err.contains("hunter2") && !test.at("run").exists(), "{ran:#?}");
    }
    assert_eq!(log.lock().unwrap().len(), 0);
    // A key that is refused is no candidate's failure.
    Ran::of(&mut words(&named, "usd=0.004")).expect(1, &["does not accept the key in KERNELS_TEST_MODEL_KEY"]);
    Ran::ok(&mut search(&test, &["resume", "run"])).expect(0, &["the budget of 0.004 US dollars is spent"]);
    let report = test.json("search status run");
    let caught = report["caught"].as_object().unwrap();
    assert!(caught.keys().all(|kind| kind == "not-novel"), "{caught:?}");
    // With eight candidates at a time as well, one answer at most is more than the budget has.
    assert_eq!(report["candidates"].as_array().unwrap().len(), 4);
    assert!((report["usd"].as_f64().unwrap() - 0.0045).abs() < 1e-9, "{}", report["usd"]);
}

/// What an answer cost is not known where it came too late, or without a count of tokens: what is spent is not known then.
#[test]
fn search_run_budget_usd_ends_with_an_answer_whose_cost_is_not_known() {
    let empty = json!({ "model": MODEL, "choices": [{ "message": { "content": "" }, "finish_reason": "stop" }] });
    let empty = http::answer("200 OK", "", empty.to_string());
    for (pause, patience, words) in [(6, "2", "timed out"), (0, "60", "without content")] {
        let test = Test::new();
        project(&test);
        let empty = empty.clone();
        let (address, log) = serve(move |_, _| {
            thread::sleep(Duration::from_secs(pause));
            empty.clone()
        });
        let proposer = proposer(&address);
        let words_of_run = ["run", "task", "--proposer", &proposer, "--out", "run", "--patience", patience];
        let mut command = search(&test, &[&words_of_run[..], &["--budget", "usd=0.01"]].concat());
        Ran::of(&mut command).expect(1, &["the cost of candidate 1 by http:", words, "resume", "--budget evals=N"]);
        let asked = log.lock().unwrap().len();
        // It is not asked again, and not lost.
        Ran::of(&mut search(&test, &["resume", "run"])).expect(1, &["the cost of candidate 1"]);
        Ran::ok(&mut search(&test, &["resume", "run", "--budget", "evals=1"]));
        assert_eq!(log.lock().unwrap().len(), asked);
        assert_eq!(test.json("search status run")["unpriced"], 1);
        Ran::of(&mut search(&test, &["resume", "run", "--budget", "usd=1"])).expect(1, &["is not known"]);
    }
}

/// The first of its requests is answered by a model with a price, the second by one without.
#[test]
#[cfg(target_os = "linux")]
fn search_run_proposer_agent_of_a_model_without_a_price() {
    let test = Test::new();
    project(&test);
    let (address, log) = serve(|_, at| {
        let usage = json!({ "input_tokens": 1000, "output_tokens": 100 });
        let model = if at == 0 { MODEL } else { "own-model" };
        http::answer("200 OK", "", json!({ "model": model, "usage": usage }).to_string())
    });
    let ask = "curl -s -d '{}' -H \"x-api-key: $ANTHROPIC_API_KEY\" \"$ANTHROPIC_BASE_URL/v1/messages\" >&2\n";
    let bin = test.root().join("bin");
    executable(&bin.join("claude"), format!("#!/bin/sh\n{ask}{ask}echo '#define TILE 64' > tile.h\n"));
    let run = |words: &[&str]| {
        let mut command = search(&test, words);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        Ran::of(command.env("ANTHROPIC_BASE_URL", &address).env("ANTHROPIC_API_KEY", KEY))
    };
    run(&["run", "task", "--proposer", "agent:claude", "--out", "run", "--budget", "usd=3"])
        .expect(1, &["the cost of candidate 1 by agent:claude is not known"]);
    assert_eq!(log.lock().unwrap().len(), 2);
    run(&["resume", "run", "--budget", "evals=2"]).expect(0, &["the budget of 2 evaluations is spent"]);
    let report = test.json("search status run");
    assert_eq!(report["unpriced"], 1, "{report:#}");
    assert!((report["usd"].as_f64().unwrap() - 0.0015).abs() < 1e-9, "{report:#}");
}
