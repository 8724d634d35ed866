//! `kernels skills generate`: traces of real agents, secrets in them, and writers that answer well and badly.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::support::http;
use crate::support::{Test, exists, write};

const GOOD: &str = "=== SKILL.md\n---\nname: norms\ndescription: Norms. Use when writing norms.\n---\n# Norms\n\nMeasure first.\n=== END\n";

/// A writer that counts how often it is asked, and answers with `answer`.
fn writer(test: &Test, answer: &str) {
    test.write("answer", answer);
    write(&test.home.join("writer"), "cat > /dev/null; echo x >> \"$HOME/asked\"; cat answer\n");
}

fn generate(test: &Test, more: &str) -> crate::support::Ran {
    let mut command = test.command();
    command.args(["skills", "generate", "norms", "-o", "norms", "--rounds", "2"]);
    command.args(["--writer", "exec:sh $HOME/writer"]).args(more.split_whitespace());
    crate::support::Ran::of(&mut command)
}

fn asked(test: &Test) -> usize {
    fs::read_to_string(test.home.join("asked")).map_or(0, |text| text.lines().count())
}

#[test]
fn traces_of_five_agents_have_one_digest() {
    let test = Test::new();
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
    for (file, kind) in [
        ("claude.jsonl", "Claude Code"),
        ("codex.jsonl", "Codex"),
        ("opencode.json", "OpenCode"),
        ("gemini.jsonl", "Gemini CLI"),
        ("copilot.jsonl", "Copilot CLI"),
    ] {
        let ran = test.ok(&format!("skills generate --digest --from {}", traces.join(file).display()));
        for words in
            [kind, "Failed, then passed", "`python3 check.py` failed", "expected 2, got 1", ": `sed -i", "1 passed"]
        {
            assert!(ran.out.contains(words), "{file}: {words}: {}", ran.out);
        }
        for secret in ["ghp_", "ada@", "home/ada"] {
            assert!(!ran.out.contains(secret), "{file}: {secret}: {}", ran.out);
        }
    }
}

#[test]
fn damage_costs_its_own_line_only() {
    let test = Test::new();
    let said = |text: &str| format!("{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n");
    let deep = "[".repeat(100_000);
    let torn = "{\"type\":\"user\",\"mess";
    let mut bytes = format!("{}{deep}\n{}", said("first"), said("second")).into_bytes();
    bytes.extend(b"\xff\xfe{\n");
    bytes.extend(torn.as_bytes());
    test.write("t.jsonl", bytes);
    let ran = test.ok("skills generate --digest --from t.jsonl");
    for (text, words) in
        [(&ran.out, "first"), (&ran.out, "second"), (&ran.err, "2 lines left out"), (&ran.err, "cut off")]
    {
        assert!(text.contains(words), "{words}: {ran:#?}");
    }
    test.write("none", "nothing of a trace");
    test.run("skills generate --digest --from none").expect(1, &["holds no step"]);
}

#[test]
fn secrets_do_not_leave_a_trace() {
    let test = Test::new();
    let secrets = [
        "sk-abcdefghijklmnopqrstuv",
        "\\u0073k-abcdefghijklmnopqrstuv",
        "\\ngh\" + \"p_abcdefghijklmnopqrstuv",
        "x-hf_abcdefghijklmnopqrstuv.py",
        "c2stYWJjZGVmZ2hpamtsbW5vcHFyc3R1dg==",
        "MY_TOKEN=abcdefghij-klmn",
        "Authorization: Basic abcdefghij",
        "https://ada:abcdefghij@host/x",
        "-----BEGIN PRIVATE KEY-----abcdefghij",
    ];
    let text = secrets.map(|secret| format!("## User\n\n{secret}\n")).concat();
    test.write("t.md", text);
    let ran = test.ok("skills generate --digest --from t.md");
    for left in ["abcdefghij", "c2stYWJj"] {
        assert!(!ran.out.contains(left), "{}", ran.out);
    }
    assert!(ran.out.matches("[redacted").count() >= secrets.len(), "{}", ran.out);
}

#[test]
fn a_good_answer_is_written_once_and_asked_for_once() {
    let test = Test::new();
    writer(&test, GOOD);
    generate(&test, "").expect(0, &["wrote", "nothing was measured"]);
    test.ok("skills validate norms --strict");
    generate(&test, "").expect(3, &["is there already"]);
    fs::remove_dir_all(test.at("norms")).unwrap();
    generate(&test, "").expect(0, &["wrote"]);
    assert_eq!(asked(&test), 1);
}

#[test]
fn bad_answers_are_rejected_with_reasons() {
    for (answer, why) in [
        (GOOD.replace("=== END", "=== ../../x\nx\n=== END"), "could point outside"),
        (GOOD.replace("=== END\n", ""), "cut off"),
        (GOOD.replace("Measure", "Mea\u{200b}sure"), "hidden-character"),
        (GOOD.replace("---\n# N", "allowed-tools: Bash\n---\n# N"), "allowed-tools"),
        (GOOD.replace("first", "sk-abcdefghijklmnopqrstuv"), "secret"),
        (GOOD.replace("Measure first", "Return alpha beta, gamma delta epsilon zeta"), "holds text of task one"),
    ] {
        let test = Test::new();
        for (name, text) in [
            ("task.toml", ""),
            ("instruction.md", "Do it."),
            ("solution/x.py", "return alpha_beta(gamma, delta, epsilon, zeta)\n"),
        ] {
            test.write(&format!("tasks/one/{name}"), text);
        }
        writer(&test, &answer);
        generate(&test, "--tasks tasks").expect(1, &[why]);
        assert_eq!(asked(&test), 2, "{why}");
        assert!(!exists(test.at("norms")) && !exists(test.root().join("x")), "{why}");
    }
}

/// Also where it left a process that holds its output open.
#[test]
fn skills_generate_timeout() {
    let test = Test::new();
    for (line, seconds, words) in [
        ("exec:sleep 60; echo hi", "2s", "did not end in 2 s (--timeout); start the same command again"),
        ("exec:cat answer; setsid sleep 60 2>/dev/null & exit 0", "60s", "wrote"),
    ] {
        test.write("answer", GOOD);
        let begun = std::time::Instant::now();
        let mut command = test.command();
        command.args(["skills", "generate", "norms", "-o", "norms", "--writer", line, "--timeout", seconds]);
        let ran = crate::support::Ran::of(&mut command);
        ran.expect(i32::from(!ran.out.contains("wrote")), &[words]);
        assert!(begun.elapsed().as_secs() < 40, "{line}: {:?}", begun.elapsed());
    }
}

/// A coding agent that writes has its question alone: the solutions are what a draft is measured by.
#[test]
#[cfg(target_os = "linux")]
fn skills_generate_writer_that_looks_at_the_tasks() {
    let test = Test::new();
    let tasks = test.outside().join("tasks");
    for (name, text) in [("task.toml", ""), ("instruction.md", "Do it."), ("solution/x.py", "return 42\n")] {
        write(&tasks.join("one").join(name), text);
    }
    let event = |text: &str| {
        let content = serde_json::json!([{ "type": "text", "text": text }]);
        serde_json::json!({ "type": "assistant", "message": { "role": "assistant", "content": content } }).to_string()
    };
    test.write("../outside/good", event(GOOD));
    let script = format!(
        "cat {0}/one/solution/x.py > seen 2> /dev/null; ls {0} >> seen 2> /dev/null\n[ -s seen ] || cat {1}\n",
        tasks.display(),
        test.outside().join("good").display()
    );
    let mut command = super::subjects::with_claude(&test, &script);
    command.args(["skills", "generate", "norms", "-o", "norms", "--rounds", "1", "--writer", "claude", "--tasks"]);
    crate::support::Ran::of(command.arg(&tasks)).expect(0, &["wrote"]);
}

/// Tasks that ask for a word; a student writes the word that its skill names for the task, and without one what it knows.
fn schools(test: &Test, known: &str) -> String {
    for id in ["ant", "bee", "cat", "dog"] {
        let write = |name: &str, text: &str| test.write(&format!("tasks/{id}/{name}"), text);
        write("task.toml", "");
        write("instruction.md", &format!("Write what {id} says into word.txt.\n"));
        write("environment/word.txt", "nothing\n");
        let judge = format!(
            "r=0; grep -q '^{id}!' word.txt && r=1\necho said $(cat word.txt)\necho $r > $REWARD_DIR/reward.txt\n"
        );
        write("tests/test.sh", &judge);
        write("solution/word.txt", &format!("{id}!\n"));
        write("mutants/of-none/word.txt", "!\n");
    }
    let script = format!(
        "task=$(sed -n 's/Write what \\([a-z]*\\) .*/\\1/p')\nskill=$(cat .agents/skills/*/SKILL.md 2>/dev/null)\n\
         case \"$skill\" in\n*\"all: bang\"*) echo \"$task!\";;\n*\"not $task\"*) echo no;;\n\
         *) case \" {known} \" in *\" $task \"*) echo \"$task!\";; *) echo no;; esac;;\nesac > word.txt\n"
    );
    write(&test.home.join("student"), script);
    format!("exec:sh {}", test.home.join("student").display())
}

fn draft(says: &str) -> String {
    GOOD.replace("Measure first.", says)
}

/// A writer that has an answer for each time it is asked.
fn writers(test: &Test, answers: &[String]) {
    for (at, answer) in answers.iter().enumerate() {
        write(&test.home.join(format!("answer-{}", at + 1)), answer);
    }
    let script = "cat > \"$HOME/question\"; echo x >> \"$HOME/asked\"; n=$(wc -l < \"$HOME/asked\"); \
                  cp \"$HOME/question\" \"$HOME/question-$n\"; cat \"$HOME/answer-$n\"\n";
    write(&test.home.join("writer"), script);
}

fn with_students(test: &Test, student: &str, more: &[&str]) -> crate::support::Ran {
    let mut command = test.command();
    command.args(["skills", "generate", "words", "--writer", "exec:sh $HOME/writer", "--tasks", "tasks", "--json"]);
    command.args(["--student", student, "--rounds", "3", "--holdout", "0.5"]).args(more);
    crate::support::Ran::of(&mut command)
}

#[test]
#[cfg(target_os = "linux")]
fn a_draft_is_refined_on_some_tasks_and_taken_for_what_it_does_on_others() {
    let test = Test::new();
    let student = schools(&test, "");
    test.write("tasks/eel/task.toml", "");
    test.write("tasks/eel/instruction.md", "No solution.\n");
    test.write("tasks/eel/tests/test.sh", "echo 0 > $REWARD_DIR/reward.txt\n");
    writers(&test, &[draft("Say nothing."), draft("Say it. all: bang")]);
    let ran = with_students(&test, &student, &["-o", "norms"]);
    let report = ran.json();
    assert_eq!(report["accepted"], true, "{report:#}");
    let drafts = report["drafts"].as_array().unwrap();
    let lifts: Vec<f64> = drafts.iter().map(|draft| draft["train"]["lift"][0][1].as_f64().unwrap()).collect();
    assert_eq!((lifts, &report["holdout"]["lift"][0][1]), (vec![0.0, 1.0], &serde_json::json!(1.0)));
    assert!(drafts[1]["tokens"].as_u64().unwrap() > 10);
    assert!(fs::read_to_string(test.at("norms/SKILL.md")).unwrap().contains("all: bang"));
    // The writer hears of the tasks that its drafts are refined on, and of no other.
    let run = Path::new(report["run"].as_str().unwrap()).to_owned();
    let split: serde_json::Value = serde_json::from_slice(&fs::read(run.join("tasks.json")).unwrap()).unwrap();
    assert!(split["left_out"]["eel"].as_str().unwrap().contains("solution"), "{split:#}");
    let question = fs::read_to_string(test.home.join("question-2")).unwrap();
    for (part, told) in [("train", true), ("holdout", false)] {
        for folder in split[part].as_array().unwrap() {
            let id = Path::new(folder.as_str().unwrap()).file_name().unwrap().to_str().unwrap();
            assert_eq!(question.contains(&format!("what {id} says")), told, "{part}: {question}");
            assert!(!question.contains(&format!("{id}!")), "{question}");
        }
    }
    // The same again asks nobody and runs nothing.
    fs::remove_dir_all(test.at("norms")).unwrap();
    write(&test.home.join("student"), "exit 1\n");
    let again = with_students(&test, &student, &["-o", "norms"]);
    let again: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((asked(&test), &again["holdout"]), (2, &report["holdout"]));
}

#[test]
#[cfg(target_os = "linux")]
fn a_draft_by_which_the_hold_out_falls_is_not_taken() {
    let test = Test::new();
    let student = schools(&test, "ant bee cat dog");
    writers(&test, &["ant", "bee", "cat"].map(|_| draft("not ant not bee not cat not dog")));
    let ran = with_students(&test, &student, &["-o", "norms"]);
    ran.expect(1, &["the hold-out falls by 1.00"]);
    assert!(!exists(test.at("norms")));
}

#[test]
#[cfg(target_os = "linux")]
fn a_skill_that_is_there_becomes_better_in_its_place() {
    let test = Test::new();
    let student = schools(&test, "ant bee");
    test.write("skills/norms/SKILL.md", draft("not ant").trim_start_matches("=== SKILL.md\n").replace("=== END\n", ""));
    test.write("skills/norms/notes.txt", "mine\n");
    writers(&test, &[draft("Say it. all: bang")]);
    let ran = with_students(&test, &student, &["--from", "skills/norms"]);
    let report = ran.json();
    assert_eq!(report["accepted"], true, "{report:#}");
    assert!(fs::read_to_string(test.home.join("question-1")).unwrap().contains("not ant"));
    assert!(fs::read_to_string(test.at("skills/norms/SKILL.md")).unwrap().contains("all: bang"));
    let before = Path::new(report["run"].as_str().unwrap()).join("before-1/norms/notes.txt");
    assert_eq!(fs::read_to_string(before).unwrap(), "mine\n");
    // Beside the skill as it was, not beside none.
    let run = Path::new(report["run"].as_str().unwrap()).join("students/before-train/events.jsonl");
    assert!(fs::read_to_string(run).unwrap().contains("old="));
}

/// A model writes, over HTTP.
#[test]
fn skills_generate_writer_http() {
    let test = Test::new();
    let address = http::serve(|request, stream| {
        assert!(request.body.to_string().contains("Form of the answer"), "{request:#?}");
        let message = serde_json::json!({ "choices": [{ "message": { "content": GOOD } }] });
        stream.write_all(&http::answer("200 OK", "", message.to_string()))
    });
    let typed = format!("skills generate norms -o norms --writer {address}#m");
    test.run(&typed).expect(0, &["wrote"]);
    test.ok("skills validate norms --strict");
    test.run("skills generate norms -o other --writer dir:norms").expect(2, &["a folder writes nothing"]);
    test.run("skills generate norms -o other --writer cloude:x").expect(2, &["--writer cloude:x"]);
    test.run("skills generate norms --writer exec:true").expect(2, &["-o DIR is missing"]);
}
