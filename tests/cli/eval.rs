//! `kernels skills eval` and `runs`: what tasks, agents and kills can do to a verdict.

#![cfg(target_os = "linux")]

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Ran, Test, picture, wait_until, write};

const JUDGE: &str = "reward=0\n[ \"$(cat answer.txt)\" = 42 ] && reward=1\necho \"{\\\"reward\\\": $reward}\" > \"$REWARD_DIR/reward.json\"\n";

/// A task that asks for 42 in answer.txt, the one file that may be changed.
fn task(test: &Test, folder: &str, about: &str) {
    let write = |name: &str, text: &str| test.write(&format!("{folder}/{name}"), text);
    write("task.toml", &format!("[metadata.kernels]\nedit = [\"answer.txt\"]\n{about}\n"));
    write("instruction.md", "Write the answer.\n");
    write("environment/answer.txt", "0\n");
    write("environment/tests/visible.sh", "exit 1\n");
    write("tests/test.sh", JUDGE);
    write("solution/answer.txt", "42\n");
    write("mutants/one-less/answer.txt", "41\n");
}

/// An agent: a script beside the project, and how it is named.
fn agent(test: &Test, name: &str, script: &str) -> String {
    let path = test.outside().join(name);
    write(&path, script);
    format!("exec:sh {}", path.display())
}

fn eval(test: &Test, arguments: &[&str]) -> Ran {
    Ran::of(test.command().args(["skills", "eval"]).args(arguments))
}

fn report(ran: &Ran) -> Value {
    ran.json()
}

fn rows(report: &Value) -> Vec<Value> {
    report["rows"].as_array().unwrap().clone()
}

/// What the agent printed in a row.
fn said(test: &Test, run: &str, row: &Value) -> String {
    let digest = row["trajectory"].as_str().unwrap();
    let path = test.at(run).join("blobs").join(&digest[..2]).join(&digest[2..]);
    let steps: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    steps[0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn tasks_are_held_to_account() {
    let test = Test::new();
    task(&test, "tasks/good", "");
    eval(&test, &["--check", "tasks"]).expect(0, &["3 checks passed, 0 failed"]);
    let breaks: [(&str, &str, &str); 3] = [
        ("solution/answer.txt", "43\n", "solution"),
        ("mutants/one-less/answer.txt", "42\n", "it passes, and is wrong"),
        ("environment/answer.txt", "42\n", "untouched"),
    ];
    for (path, text, words) in breaks {
        fs::remove_dir_all(test.at("tasks/good")).unwrap();
        task(&test, "tasks/good", "");
        test.write(&format!("tasks/good/{path}"), text);
        eval(&test, &["--check", "tasks"]).expect(1, &[words, "1 failed"]);
    }
}

#[test]
fn what_an_agent_wrote_runs_without_the_right_to_write_its_reward() {
    let test = Test::new();
    task(&test, "tasks/one", "");
    let judge = "\"$UNTRUSTED\" sh -c \"echo 1 > $REWARD_DIR/reward.txt\" 2>/dev/null && exit 0\n\
                 reward=0\n[ \"$(\"$UNTRUSTED\" cat answer.txt)\" = 42 ] && reward=1\n\
                 echo $reward > \"$REWARD_DIR/reward.txt\"\n";
    test.write("tasks/one/tests/test.sh", judge);
    eval(&test, &["--check", "tasks"]).expect(0, &["3 checks passed, 0 failed"]);
}

/// It knows neither the task's folder nor reads it.
#[test]
fn what_an_agent_wrote_does_not_reach_the_solution() {
    let test = Test::new();
    task(&test, "tasks/one", "");
    let judge = "reward=0\n[ \"$(\"$UNTRUSTED\" sh answer.txt)\" = 42 ] && reward=1\necho $reward > \"$REWARD_DIR/reward.txt\"\n";
    test.write("tasks/one/tests/test.sh", judge);
    test.write("tasks/one/solution/answer.txt", "echo 42\n");
    let at = test.at("tasks/one/solution/answer.txt");
    let mut command = test.command();
    command.args(["skills", "eval", "--tasks", "tasks", "--arms", "without", "--out", "run", "--json"]);
    for (name, program) in [
        ("named", "exec sh \"$SOLUTION/answer.txt\"".to_owned()),
        ("beside", "exec sh \"$TESTS/../solution/answer.txt\"".to_owned()),
        ("found", format!("exec sh {}", at.display())),
        ("says", "set | grep -q -e ^SOLUTION= -e ^TESTS -e ^COMMON= -e _DIR= || echo 42".to_owned()),
    ] {
        command.args(["--agent", &agent(&test, name, &format!("cat > answer.txt <<'EOF'\n{program}\nEOF\n"))]);
    }
    let rows = rows(&report(&Ran::ok(&mut command)));
    for row in &rows {
        let outcome = if row["agent"].as_str().unwrap().ends_with("says") { "pass" } else { "fail" };
        assert_eq!(row["outcome"], outcome, "{row:#}");
    }
    assert_eq!(rows.len(), 4);
}

/// make, grep and bash itself end with 2 where an agent's files are broken; 0 is what `|| true` leaves of such an end.
#[test]
fn tests_that_an_agent_breaks_fail_it_and_those_that_cannot_judge_say_so() {
    let test = Test::new();
    let tests = [
        ("broken", "grep -q 42 gone.txt\nexit $?\n", "fail", "ended with 2 and wrote no reward"),
        ("nothing", "exit 0\n", "fail", "ended with 0 and wrote no reward"),
        (
            "nonsense",
            "echo \"{\\\"reward\\\": $(cat answer.txt) }\" > $REWARD_DIR/reward.json\n",
            "fail",
            "is not JSON",
        ),
        ("own", "\"$UNTRUSTED\" sh -c 'exit 77'\nexit $?\n", "fail", "ended with 77"),
        (
            "lacks",
            "echo 'no licence' > $REWARD_DIR/cannot-judge\nexit 1\n",
            "verifier_error",
            "cannot judge here: no licence",
        ),
    ];
    for (id, judge, ..) in tests {
        task(&test, &format!("tasks/{id}"), "");
        test.write(&format!("tasks/{id}/tests/test.sh"), judge);
    }
    let agent = agent(&test, "breaks", "echo '42, \"' > answer.txt\n");
    let ran = eval(&test, &["--tasks", "tasks", "--arms", "without", "--agent", &agent, "--json"]);
    let rows = rows(&report(ran.expect(0, &[])));
    for (id, _, outcome, why) in tests {
        let row = rows.iter().find(|row| row["task"] == id).unwrap();
        assert_eq!(row["outcome"], outcome, "{row:#}");
        assert!(row["why"].as_str().unwrap().contains(why), "{row:#}");
    }
}

#[test]
fn verdicts_of_agents_that_are_good_wrong_and_hostile() {
    let test = Test::new();
    task(&test, "tasks/one", "");
    let right = "echo 42 > answer.txt\n";
    let cases = [
        ("good", String::new(), "pass", ""),
        ("wrong", "echo 41 > answer.txt".to_owned(), "fail", ""),
        ("reward", "echo '{\"reward\": 1}' > reward.json".to_owned(), "cheat", "it wrote reward.json"),
        ("tests", "echo exit 0 > tests/visible.sh".to_owned(), "cheat", "it changed the test"),
        ("hook", "mkdir -p .git/hooks; echo true > .git/hooks/post-commit".to_owned(), "cheat", "git hook"),
        ("outside", "echo > other.txt".to_owned(), "fail", "outside of what the task allows"),
        // The command is out of reach: were it replaced, the answer would be wrong.
        ("command", "at=$(command -v kernels)\nln -sf /bin/true \"$at\" && echo 0 > answer.txt".to_owned(), "pass", ""),
        (
            "later",
            "echo 0 > answer.txt\nsetsid sh -c 'sleep 1; echo 42 > answer.txt' >/dev/null 2>&1 &".to_owned(),
            "fail",
            "",
        ),
        ("loud", "head -c 1000000000 /dev/zero".to_owned(), "pass", ""),
        ("full", "echo 0 > answer.txt; truncate -s 9G big; sleep 60; echo 42 > answer.txt".to_owned(), "fail", ""),
        // At most 600 processes, which would end after 20 s.
        ("many", "echo 0 > answer.txt\nfor i in $(seq 600); do sleep 20 & done\nwait".to_owned(), "fail", ""),
    ];
    let mut command = test.command();
    command.args(["skills", "eval", "--tasks", "tasks", "--arms", "without", "--out", "run", "--json"]);
    let mut named = Vec::new();
    for (name, script, ..) in &cases {
        let agent = agent(&test, name, &format!("{right}{script}\n"));
        command.args(["--agent", &agent]);
        named.push(agent);
    }
    let report = report(&Ran::ok(&mut command));
    let rows = rows(&report);
    for ((name, _, outcome, harm), agent) in cases.iter().zip(&named) {
        let row = rows.iter().find(|row| row["agent"] == agent.as_str()).unwrap();
        assert_eq!(row["outcome"], *outcome, "{name}: {row:#}");
        let said = row["harm"].to_string();
        assert!(if harm.is_empty() { said == "[]" } else { said.contains(harm) }, "{name}: {said}");
    }
    // They are ended as soon as they have too much.
    for name in &named[9..] {
        let row = rows.iter().find(|row| row["agent"] == name.as_str()).unwrap();
        assert!(row["seconds"].as_f64().unwrap() < 20.0, "{row:#}");
    }
    let size: usize = picture(&test.at("run")).values().map(|(_, bytes)| bytes.len()).sum();
    assert!(size < 1 << 20, "the run keeps {size} bytes");
}

#[test]
fn arms_differ_in_the_skill_alone() {
    let test = Test::new();
    task(&test, "tasks/one", "");
    let (new, old) = (test.skill("demo", "2.0.0"), test.outside().join("old"));
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join("SKILL.md"), "---\nname: old\ndescription: The skill as it was.\n---\n\nOLD\n").unwrap();
    let agent = agent(
        &test,
        "looks",
        "cat\ncommand -v kernels >/dev/null && echo HAS-KERNELS\nfind . -path ./.git -prune -o -type f -print | sort | sed 's/^/FILE /'\n\
         cd \"$HOME\" && find . -type f | sort | sed 's/^/HOME /'\n",
    );
    let arms = format!("without,with,forced,inline,old={}", old.display());
    let out = eval(
        &test,
        &[
            new.to_str().unwrap(),
            "--tasks",
            "tasks",
            "--arms",
            &arms,
            "--agent",
            &agent,
            "--cli",
            "both",
            "--out",
            "run",
            "--json",
        ],
    );
    let rows = rows(&report(out.expect(0, &[])));
    assert_eq!(rows.len(), 10);
    for cli in [true, false] {
        let of = |arm: &str| {
            let row = rows
                .iter()
                .find(|row| row["arm"].as_str().unwrap().split('=').next() == Some(arm) && row["cli"] == cli)
                .unwrap();
            said(&test, "run", row)
        };
        let without = of("without");
        assert!(!without.contains("skills/"), "{without}");
        assert_eq!(without.contains("HAS-KERNELS"), cli, "{without}");
        // The skill, and what `skills add` keeps of it to merge edits with.
        let without_skill = |text: &str| -> String {
            text.lines()
                .filter(|line| {
                    !["skills/demo/", "skills/old/", ".agents/.kernels/"].iter().any(|own| line.contains(own))
                })
                .map(|line| format!("{line}\n"))
                .collect()
        };
        let with = of("with");
        assert!(with.contains("skills/demo/SKILL.md"), "{with}");
        assert_eq!(without_skill(&with), without);
        let forced = of("forced");
        assert!(forced.starts_with("Use the skill `demo`") && forced.contains("skills/demo/SKILL.md"), "{forced}");
        let inline = of("inline");
        assert!(inline.contains("name: demo") && !inline.contains("skills/demo/"), "{inline}");
        let old = of("old");
        assert!(old.contains("skills/old/SKILL.md") && !old.contains("skills/demo/"), "{old}");
        assert_eq!(without_skill(&old), without);
    }
}

#[test]
fn what_was_not_counted_or_not_judged_is_said_so() {
    let test = Test::new();
    let hostile = "<img src=x onerror=alert(1)>";
    task(&test, &format!("tasks/{hostile}"), "");
    task(&test, "tasks/opinion", "needs = [\"card\"]");
    test.write("prompts.json", r#"[{"id": "taste", "prompt": "Please.", "assertions": ["it is beautiful"]}]"#);
    let skill = test.skill("demo", "2.0.0");
    let agent = format!(
        "{} # <script>alert(2)</script>",
        agent(&test, "good", "echo 42 > answer.txt\necho '<script>alert(3)</script>'\n")
    );
    let arguments = [
        skill.to_str().unwrap(),
        "--tasks",
        "tasks",
        "--tasks",
        "prompts.json",
        "--agent",
        &agent,
        "--out",
        "run",
        "--json",
        "--junit",
        "junit.xml",
        "--html",
        "page.html",
        "--plot",
        "lift.svg",
        "--benchmark",
        "benchmark.json",
        "--fail-under",
        "lift=0.5,harm=0",
    ];
    let report = report(eval(&test, &arguments).expect(1, &["below the limit"]));
    let lift = &report["summary"]["lifts"][0];
    assert_eq!(
        (lift["pairs"].as_u64(), lift["dropped"].as_u64(), lift["lift"].as_f64()),
        (Some(1), Some(2), Some(0.0))
    );
    assert!(report["summary"]["skipped"]["taste"].as_str().unwrap().contains("for a person or a model to judge"));
    assert!(report["summary"]["skipped"]["opinion"].as_str().unwrap().contains("needs a card"));
    for row in rows(&report) {
        for name in ["usage", "turns", "calls", "failed_calls", "usd", "loaded"] {
            assert!(row[name].is_null(), "{name}: {row:#}");
        }
    }
    for name in ["usage", "tokens", "turns", "usd"] {
        assert!(report["summary"]["cells"][0][name].is_null(), "{name}");
    }
    let (page, svg) =
        (fs::read_to_string(test.at("page.html")).unwrap(), fs::read_to_string(test.at("lift.svg")).unwrap());
    for text in [&page, &svg] {
        assert!(!text.contains("<img") && !text.contains("<script"), "{text}");
        assert!(text.contains("&lt;img") && !text.contains("Pass rate against tokens"));
    }
    let junit = fs::read_to_string(test.at("junit.xml")).unwrap();
    assert!(junit.contains("<skipped") && junit.contains("taste") && !junit.contains("<img"), "{junit}");
    let csv = Ran::ok(test.command().args(["skills", "runs", "run", "--csv"])).out;
    assert!(csv.contains(",1.0000,,,,,,,,,,,,"), "{csv}");
    // Recorded rows give the same bytes each time.
    let again = |name: &str| Ran::ok(test.command().args(["skills", "runs", "run", "--html", name, "--json"])).out;
    assert_eq!(again("a.html"), again("b.html"));
    assert_eq!(fs::read(test.at("a.html")).unwrap(), page.into_bytes());
    assert_eq!(fs::read(test.at("a.html")).unwrap(), fs::read(test.at("b.html")).unwrap());
    // The folder has a run.
    let before = fs::read(test.at("run/events.jsonl")).unwrap();
    eval(&test, &arguments[..10]).expect(3, &["holds a run already", "--resume"]);
    assert_eq!(fs::read(test.at("run/events.jsonl")).unwrap(), before);
}

#[test]
fn agents_that_cannot_be_run_are_refused_before_anything_is_written() {
    let test = Test::new();
    task(&test, "tasks/one", "");
    for (agent, words) in [("qwen:m", "cannot be run yet"), ("nonsense", "exec:COMMAND"), ("http:nowhere", "nowhere")] {
        eval(&test, &["--tasks", "tasks", "--agent", agent]).expect(2, &[agent, words]);
    }
    assert!(!test.at(".kernels").exists());
}

/// Who ends the process between this program and an agent ends the agent with it, and loses that one run.
#[test]
fn what_a_killed_worker_ran_does_not_go_on() {
    let test = Test::new();
    task(&test, "tasks/one", "");
    let mark = format!("{}", 4_000 + std::process::id() % 1_000);
    let agent = agent(&test, "stays", &format!("setsid sleep {mark} &\nsleep {mark} & sleep {mark}\n"));
    let mut command = test.command();
    command.args(["skills", "eval", "--tasks", "tasks", "--arms", "without", "--agent", &agent, "--json"]);
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let sleeping = || pids(&format!("sleep\0{mark}\0"));
    wait_until("three sleep", || sleeping().len() == 3);
    let worker = pids("__worker\0{\"supervise\"");
    let below = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok()) == Some(running.id())
    };
    let worker = worker.into_iter().find(below).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(worker).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    let ended = running.wait_with_output().unwrap();
    let rows = rows(&serde_json::from_slice(&ended.stdout).unwrap());
    assert_eq!(rows[0]["outcome"], "agent_error", "{rows:#?}");
    assert_eq!(sleeping(), Vec::<i32>::new());
}

/// The processes whose command line has a text.
fn pids(text: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pid = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(text).then(|| entry.file_name().to_str()?.parse().ok()).flatten()
    };
    all.filter_map(pid).collect()
}

#[test]
fn a_killed_run_goes_on_and_does_nothing_twice() {
    let test = Test::new();
    task(&test, "tasks/one", "");
    let agent = agent(&test, "slow", "sleep 0.3\necho 42 > answer.txt\n");
    let mut command = test.command();
    command.args([
        "skills", "eval", "--tasks", "tasks", "--arms", "without", "--runs", "5", "--agent", &agent, "--out", "run",
    ]);
    let mut running = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let events = || fs::read_to_string(test.at("run/events.jsonl")).unwrap_or_default();
    let done = || events().lines().filter(|line| line.contains("\"kind\":\"row\"")).count();
    wait_until("two runs are done", || done() >= 2);
    running.kill().unwrap();
    running.wait().unwrap();
    let before = done();
    assert!((2..5).contains(&before), "{}", events());
    let ran = eval(&test, &["--resume", "run", "--json"]);
    assert_eq!(rows(&report(ran.expect(0, &[]))).len(), 5);
    assert_eq!(done(), 5);
    let again = eval(&test, &["--resume", "run", "--json"]);
    assert_eq!((again.out, done()), (ran.out, 5));
    // A task that has changed since is not mixed in.
    test.write("tasks/one/tests/test.sh", "exit 0\n");
    eval(&test, &["--resume", "run"]).expect(1, &["the task one changed since"]);
}

/// Rows of two programs or of two cards are not one run.
#[test]
fn skills_eval_resume_with_another_program_or_card() {
    let test = Test::new();
    task(&test, "tasks/one", "");
    let agent = agent(&test, "good", "echo 42 > answer.txt\n");
    eval(&test, &["--tasks", "tasks", "--arms", "without", "--agent", &agent, "--out", "run"]).expect(0, &[]);
    let events = fs::read_to_string(test.at("run/events.jsonl")).unwrap();
    for (there, other, words) in [
        ("\"kernels\":\"", "\"kernels\":\"0.0.1 of ", "the program (kernels 0.0.1 of "),
        ("\"card\":null", "\"card\":\"NVIDIA T4\"", "was begun on NVIDIA T4, and here is none"),
    ] {
        assert_eq!(events.matches(there).count(), 1, "{events}");
        test.write("run/events.jsonl", events.replace(there, other));
        eval(&test, &["--resume", "run"]).expect(1, &[words, "tart a new run"]);
    }
    test.write("run/events.jsonl", events);
    eval(&test, &["--resume", "run"]).expect(0, &[]);
}

/// Of the tasks that measure the bundled skill, those that need no compiler. tests/cuda has one that does, evals/prove has all.
#[test]
fn skills_eval_check_evals() {
    let test = Test::new();
    let tasks = ["no-kernel", "off-topic-rocm", "off-topic-serving", "off-topic-triton", "read-ncu"];
    let tasks: Vec<String> = tasks.iter().map(|task| format!("{}/evals/{task}", env!("CARGO_MANIFEST_DIR"))).collect();
    let mut arguments = vec!["--check"];
    arguments.extend(tasks.iter().map(String::as_str));
    eval(&test, &arguments).expect(0, &["5 tasks: ", " 0 failed, 0 skipped"]);
}

/// A gate that nothing was held against is not passed, and what a resumed run began with is not changed by options.
#[test]
fn skills_eval_that_judged_nothing_passes_no_gate() {
    let test = Test::new();
    task(&test, "tasks/one", "");
    let nowhere =
        ["--tasks", "tasks", "--agent", "http:http://127.0.0.1:1/v1#m", "--fail-under", "harm=0", "--out", "run"];
    eval(&test, &nowhere).expect(1, &["no run was judged"]);
    for (arms, limit, words) in [("without", "harm=0", "no harm to count"), ("with", "lift=0.5", "there is no lift")] {
        let out = format!("of-{arms}");
        let run = ["--tasks", "tasks", "--agent", "exec:true", "--arms", arms, "--fail-under", limit, "--out", &out];
        eval(&test, &run).expect(1, &[words]);
    }
    let keyless = ["--tasks", "tasks", "--agent", "http:http://127.0.0.1:1/v1?key=NOPE#m", "--out", "other"];
    eval(&test, &keyless).expect(2, &["NOPE"]);
    assert!(!test.at("other").exists());
    for more in [["--runs", "5"], ["--arms", "with"], ["--filter", "zzz"], ["--timeout", "1s"]] {
        eval(&test, &[&["--resume", "run"], &more[..]].concat()).expect(2, &[more[0]]);
    }
    test.run("skills runs --csv --json").expect(2, &["--csv", "--json"]);
    test.write("mine/notes.md", "mine\n");
    eval(&test, &["--tasks", "tasks", "--agent", "exec:true", "--out", "mine"]).expect(3, &["is not empty"]);
}
