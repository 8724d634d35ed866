//! What a team relies on: skills.toml, `sync`, `--check`, and that nothing says that all is well where it is not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Test, copy, exists, snapshot, tree, write, write_skill};

const EMBEDDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/skills/cuda-kernels");

/// A project with the sources of two skills in it.
fn with_sources() -> Test {
    let test = Test::new();
    write_skill(&test.at("skills/review"), "review", "1");
    write_skill(&test.at("skills/release"), "release", "1");
    test
}

/// Every command that is to fail with this word fails, also quietly, where it names the reason as an error.
#[track_caller]
fn fails(test: &Test, commands: &[&str], words: &[&str]) {
    for typed in commands {
        test.run(typed).expect(1, words);
        let ran = test.run(&format!("{typed} --quiet"));
        assert!(ran.code == 1 && ran.out.is_empty() && ran.err.starts_with("error: "), "{typed}: {ran:#?}");
    }
}

#[test]
fn an_edited_folder_by_the_name_of_the_embedded_skill_is_not_current() {
    let test = Test::new();
    let fork = test.at("fork/cuda-kernels");
    copy(Path::new(EMBEDDED), &fork);
    let text = fs::read_to_string(fork.join("SKILL.md")).unwrap();
    write(&fork.join("SKILL.md"), format!("{text}a line of ours\n"));
    test.ok("skills add fork/cuda-kernels --agent claude,codex,cursor");
    fails(&test, &["skills status", "doctor"], &["forked"]);
    test.run("skills status").expect(1, &["M SKILL.md", "from fork/cuda-kernels"]);
    test.ok("skills diff").expect(0, &["+a line of ours", "embedded"]);
    test.run("skills diff --exit-code").expect(1, &["+a line of ours"]);
    // A fork of which there is no source is one as well.
    let outside = test.outside().join("cuda-kernels");
    copy(&fork, &outside);
    test.ok(&format!("skills add {} --gemini", outside.display()));
    test.run("skills status --gemini").expect(1, &["forked"]);
    test.ok("skills diff --gemini").expect(0, &["+a line of ours"]);
    test.ok("skills remove cuda-kernels --gemini");
    // What the team declares is its own skill.
    test.ok("skills sync --init");
    test.ok("skills status").expect(0, &["current", "from fork/cuda-kernels"]);
    test.ok("skills sync --check");
    test.ok("skills diff --exit-code").expect(0, &["no edits"]);
    write(&test.at(".codex/skills/cuda-kernels/SKILL.md"), "mine");
    fails(&test, &["skills status"], &["modified"]);
}

#[test]
fn a_receipt_that_was_edited_with_the_files_does_not_hide_it() {
    let test = Test::new();
    test.ok("skills add --codex");
    let honest: Value = receipt(&test, ".codex");
    copy(Path::new(EMBEDDED), &test.at("fork/cuda-kernels"));
    write(&test.at("fork/cuda-kernels/references/troubleshooting.md"), "mine\n");
    test.ok("skills add fork/cuda-kernels --claude");
    let mut forged = receipt(&test, ".claude");
    forged["source"] = json!({ "kind": "embedded" });
    forged["tree"] = honest["tree"].clone();
    test.write(".claude/skills/cuda-kernels/.kernels.json", forged.to_string());
    test.run("skills status").expect(1, &["modified", "M references/troubleshooting.md"]);
}

fn receipt(test: &Test, agent: &str) -> Value {
    let text = fs::read_to_string(test.at(agent).join("skills/cuda-kernels/.kernels.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_deleted_folder_is_missed_and_sync_puts_it_back() {
    let test = Test::new();
    test.run("skills sync").expect(1, &["no ", "skills.toml", "--init"]);
    test.run("skills sync --init").expect(1, &["nothing is installed"]);
    test.ok("skills add --claude --cursor");
    test.ok("skills sync --init").expect(0, &["wrote", "skills.toml"]);
    let manifest = fs::read_to_string(test.at("skills.toml")).unwrap();
    assert!(manifest.contains(r#"agents = ["claude", "cursor"]"#) && manifest.contains("version"), "{manifest}");
    test.run("skills sync --init").expect(3, &["skills.toml", "already"]);
    assert_eq!(fs::read_to_string(test.at("skills.toml")).unwrap(), manifest);
    test.ok("skills sync --check");
    test.ok("skills status");

    fs::remove_dir_all(test.at(".cursor")).unwrap();
    let before = snapshot(test.root());
    fails(&test, &["skills status", "doctor", "skills sync --check"], &[".cursor/skills/cuda-kernels"]);
    test.ok("skills sync --dry-run").expect(0, &["install", ".cursor/skills/cuda-kernels"]);
    assert_eq!(snapshot(test.root()), before);
    test.ok("skills sync").expect(0, &["installed", "unchanged"]);
    assert_eq!(tree(test.at(".cursor/skills/cuda-kernels")), tree(EMBEDDED));
    for typed in ["skills status", "skills sync --check", "skills sync"] {
        test.ok(typed);
    }
    // From a folder of the project as well.
    fs::remove_dir_all(test.at(".claude")).unwrap();
    fs::create_dir(test.at("src")).unwrap();
    test.run_in(&test.at("src"), "skills status").expect(1, &[".claude/skills/cuda-kernels is missing"]);
    test.run_in(&test.at("src"), "skills sync").expect(0, &["installed"]);
}

#[test]
fn a_manifest_of_links_and_of_what_is_left_out_holds() {
    let test = with_sources();
    test.ok("skills add skills -s * --agent claude,codex,agents,gemini,amp --link");
    test.ok("skills sync --init");
    let manifest = fs::read_to_string(test.at("skills.toml")).unwrap();
    assert!(manifest.contains(r#"agents = ["claude", "codex", "agents"]"#), "{manifest}");
    for typed in ["skills sync --check", "skills status", "skills sync", "doctor"] {
        test.ok(typed);
    }
    fs::remove_file(test.at(".codex/skills/review")).unwrap();
    fails(&test, &["skills sync --check", "skills status"], &[".codex/skills/review"]);
    test.ok("skills sync").expect(0, &["linked"]);
    test.write("skills.toml", manifest.replace("[\"claude\"", "[\"gemini\", \"claude\""));
    test.ok("skills sync --check").expect(0, &["left out"]);
    test.ok("skills status");
}

#[test]
fn two_versions_in_one_repository_are_a_problem() {
    let test = Test::new();
    for version in ["1", "2"] {
        write_skill(&test.at(version).join("demo"), "demo", version);
    }
    test.ok("skills add 1/demo --claude");
    test.ok("skills status");
    test.ok("skills add 2/demo --codex");
    let words = ["demo is not the same in", ".claude/skills/demo (1)", ".codex/skills/demo (2)"];
    fails(&test, &["skills status", "doctor"], &words);
    test.ok("skills list").expect(0, &words);
    test.ok("skills status --claude");
    test.ok("skills add 2/demo --claude");
    test.ok("skills status");
}

/// In CI no agent is installed: what a clone holds for them is checked nevertheless.
#[test]
fn doctor_with_a_bare_home_sees_what_agents_will_see() {
    let test = Test::new();
    test.ok("skills add --codex");
    test.ok("doctor").expect(0, &["no problems"]);
    copy(&test.at(".codex/skills/cuda-kernels"), &test.at(".agents/skills/cuda-kernels"));
    fails(&test, &["doctor"], &["Codex lists cuda-kernels 2 times"]);
    // What only this user's home holds says nothing of others.
    let test = Test::new();
    test.ok("skills add --cursor");
    write_skill(&test.home.join(".claude/skills/cuda-kernels"), "cuda-kernels", "1");
    assert!(!test.run("doctor").out.contains("Cursor sees"));
    fs::create_dir(test.home.join(".cursor")).unwrap();
    test.run("doctor").expect(1, &["Cursor sees cuda-kernels in different versions"]);
}

#[test]
fn check_fails_where_a_change_is_pending_and_changes_nothing() {
    let test = with_sources();
    let before = snapshot(test.root());
    let add = "skills add skills/review --agent claude,codex";
    test.ok(&format!("{add} --dry-run")).expect(0, &["install"]);
    fails(&test, &[&format!("{add} --check")], &[]);
    test.run(&format!("{add} --check")).expect(1, &["install", "2 installs would change"]);
    assert_eq!(test.json(&format!("{add} --check"))["exit_code"], 1);
    assert_eq!(snapshot(test.root()), before);
    test.ok("skills remove review --check");
    test.ok(add);
    test.ok(&format!("{add} --check"));
    test.ok("skills update --check");

    write_skill(&test.at("skills/review"), "review", "2");
    let before = snapshot(test.root());
    fails(&test, &["skills update --check", "skills update review --check", "skills remove review --check"], &[]);
    assert_eq!(snapshot(test.root()), before);
    test.ok("skills update");
    test.ok("skills update --check");
    write(&test.at(".claude/skills/review/SKILL.md"), "mine");
    test.run("skills add skills/review --check").expect(3, &["M SKILL.md"]);
    test.run("skills update --check").expect(3, &["M SKILL.md"]);
}

#[test]
fn an_older_version_over_a_newer_one_is_refused() {
    let test = with_sources();
    write_skill(&test.at("skills/review"), "review", "1.10");
    test.ok("skills add skills/review --claude");
    write_skill(&test.at("skills/review"), "review", "1.9");
    let before = snapshot(&test.project);
    test.run("skills add skills/review --claude").expect(3, &["1.10, newer", "--force"]);
    test.run("skills status").expect(1, &["newer", "1.10, here is 1.9"]);
    test.ok("skills update").expect(0, &["1.10 is newer than 1.9", "left as it is"]);
    assert_eq!(snapshot(&test.project), before);
    test.ok("skills add skills/review --claude --force").expect(0, &["kept in"]);
    assert_eq!(tree(test.at(".claude/skills/review")), tree(test.at("skills/review")));
}

#[test]
fn update_fails_on_a_source_outside_and_reports_what_it_did_beside_a_refusal() {
    let test = with_sources();
    let outside = test.skill("demo", "1");
    test.ok(&format!("skills add {} --claude", outside.display()));
    let ran = test.run("skills update");
    ran.expect(1, &["outside the project", "left as it is"]);
    assert!(!ran.err.contains("gone"), "{ran:#?}");
    fails(&test, &["skills update", "skills update --check"], &[]);
    test.ok("skills remove demo");

    test.ok("skills add skills -s * --claude");
    for name in ["review", "release"] {
        write_skill(&test.at("skills").join(name), name, "2");
    }
    write(&test.at(".claude/skills/release/SKILL.md"), "mine");
    let report = test.json("skills update");
    assert_eq!(report["exit_code"], 3);
    assert_eq!(report["updates"][0]["skill"]["name"], "review");
    assert_eq!(report["updates"][0]["steps"][0]["action"], "update");
    assert_eq!(report["refused"][0]["changes"][0]["path"], "SKILL.md");
}

#[test]
fn several_skills_are_added_updated_and_removed_at_once() {
    let test = with_sources();
    write(&test.at("skills/README.md"), "no skill\n");
    fs::create_dir(test.at("skills/empty")).unwrap();
    test.run("skills add skills --claude").expect(1, &["a folder of skills: release, review", "-s"]);
    test.run("skills add skills -s reviews --claude").expect(1, &["no skill 'reviews'", "release, review"]);
    test.run("skills add skills/empty -s * --claude").expect(1, &["no skill"]);
    test.run("skills add skills/review -s review --claude").expect(1, &["no skill"]);
    test.run("skills add nowhere -s * --claude").expect(1, &["nowhere"]);
    test.run("skills add skills -s *").expect(2, &["--claude"]);
    assert!(!exists(test.at(".claude")));
    test.ok("skills add ./skills/ -s review,release --agent claude,codex");
    let at = |agent: &str, name: &str| test.at(agent).join("skills").join(name);
    for (agent, name) in [(".claude", "review"), (".claude", "release"), (".codex", "review"), (".codex", "release")] {
        assert_eq!(tree(at(agent, name)), tree(test.at("skills").join(name)));
    }
    test.ok("skills remove release --codex");
    // Each goes to where it is, without being told.
    for name in ["review", "release"] {
        write_skill(&test.at("skills").join(name), name, "2");
    }
    let report = test.json("skills add skills -s *");
    let places = |n: usize| report["skills"][n]["steps"].as_array().unwrap().len();
    assert_eq!((places(0), places(1)), (1, 2), "{report}");
    assert!(!exists(at(".codex", "release")));
    test.ok("skills status review release");
    test.run("skills status review absent").expect(1, &["absent is not installed"]);
    write_skill(&test.at("skills/release"), "release", "3");
    test.ok("skills update release review").expect(0, &["updated", "unchanged"]);
    let before = snapshot(&test.project);
    test.run("skills remove review absent").expect(1, &["absent is not installed"]);
    assert_eq!(snapshot(&test.project), before);
    test.ok("skills remove review release");
    assert!(!exists(test.at(".claude")) && !exists(at(".codex", "review")));
    test.ok("skills add -s cuda-kernels --claude");
    // A foreign folder of that name is nowhere to go to.
    let test = with_sources();
    write(&test.at(".claude/skills/review/SKILL.md"), "foreign");
    test.run("skills add skills/review").expect(2, &["--claude"]);
}

#[test]
fn a_wrong_manifest_stops_sync_before_anything_changes() {
    let test = with_sources();
    copy(Path::new(EMBEDDED), &test.outside().join("other"));
    symlink(test.outside(), test.at("link")).unwrap();
    let good = "[skills.release]\nsource = \"skills/release\"\nagents = [\"claude\"]\n";
    for (text, words) in [
        ("[skills.review", &["skills.toml", "not valid", "line 4"] as &[&str]),
        ("[skills.review]\nsourc = \"x\"", &["sourc"]),
        ("[skills.review]\nsource = \"skills/review\"", &["skills.toml: review", "no agent"]),
        ("[skills.review]\nsource = \"skills/review\"\nagents = [\"claud\"]", &["claud", "claude?"]),
        ("[skills.review]\nsource = \"skills/nothing\"\nagents = [\"claude\"]", &["review", "skills/nothing"]),
        ("[skills.review]\nsource = \"skills/release\"\nagents = [\"claude\"]", &["called release"]),
        ("[skills.other]\nsource = \"../outside/other\"\nagents = [\"claude\"]", &["outside the project"]),
        ("[skills.other]\nsource = \"link/other\"\nagents = [\"claude\"]", &["outside the project"]),
        ("[skills.review]\nagents = [\"claude\"]", &["no embedded skill 'review'"]),
        (
            "[skills.review]\nsource = \"skills/review\"\nversion = \"2\"\nagents = [\"claude\"]",
            &["2 is wanted", "is 1"],
        ),
        ("[skills.cuda-kernels]\nversion = \"0.0.1\"\nagents = [\"claude\"]", &["0.0.1 is wanted", "this kernels"]),
    ] {
        test.write("skills.toml", format!("{good}{text}\n"));
        test.run("skills sync").expect(1, words);
        test.run("skills sync --check").expect(1, words);
        test.run("skills status").expect(1, words);
        test.run("doctor").expect(1, words);
        assert!(!exists(test.at(".claude")), "{text}");
    }
    test.write("skills.toml", "");
    fails(&test, &["skills sync", "skills sync --check", "skills status"], &["names no skills"]);
    fs::remove_file(test.at("skills.toml")).unwrap();
    symlink("skills/README.md", test.at("skills.toml")).unwrap();
    test.run("skills sync").expect(1, &["skills.toml"]);
    test.run("skills sync --init --check").expect(2, &["--init"]);
}

#[test]
fn sync_goes_on_beside_an_edit_and_names_what_nobody_declared() {
    let test = with_sources();
    let text = "agents = [\"claude\", \"codex\"]\n[skills.release]\nsource = \"skills/release\"\n\
                [skills.review]\nsource = \"skills/review\"\nversion = \"1\"\nagents = [\"claude\"]\n";
    test.write("skills.toml", text);
    test.ok("skills sync");
    assert!(exists(test.at(".codex/skills/release")) && !exists(test.at(".codex/skills/review")));
    assert_eq!(fs::read_to_string(test.at("skills.toml")).unwrap(), text);
    let note = "skills.toml does not name cursor for review";
    test.ok("skills add skills/review --cursor").expect(0, &[note]);
    fails(&test, &["skills sync", "skills sync --check", "skills status"], &["cursor", ".cursor/skills/review"]);
    test.ok("skills remove review --cursor");
    // What it does not name is left alone.
    test.ok("skills add --gemini").expect(0, &["skills.toml does not name cuda-kernels"]);
    test.ok("skills sync --check");

    write(&test.at(".claude/skills/release/SKILL.md"), "mine");
    let mine = snapshot(test.at(".claude/skills/release"));
    fs::remove_dir_all(test.at(".claude/skills/review")).unwrap();
    let report = test.json("skills sync");
    assert_eq!((&report["exit_code"], &report["skills"][0]["skill"]["name"]), (&json!(3), &json!("review")));
    assert!(exists(test.at(".claude/skills/review")));
    assert_eq!(snapshot(test.at(".claude/skills/release")), mine);
    let report = test.json("skills sync --force");
    let kept =
        report["skills"][0]["steps"].as_array().unwrap().iter().find_map(|step| step["backup"].as_str()).unwrap();
    assert_eq!(snapshot(kept), mine);
    test.ok("skills sync --check");
}
