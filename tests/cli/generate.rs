//! `kernels skills generate`: traces of real agents, secrets in them, and writers that answer well and badly.

use std::fs;
use std::path::Path;

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
