//! `kernels skills find` and `kernels skills add --list`: what there is to install, and what is installed.

use std::os::unix::fs::symlink;

use crate::support::{Test, snapshot, write, write_skill};

/// A folder of skills in the project: two that are sound and one that is not.
fn skills(test: &Test) {
    write_skill(&test.at("skills/review"), "review", "2");
    let text = "---\nname: release\ndescription: Writes notes. Use when a version ships.\n---\n# R\n\nAsk for the Changelog.\n";
    test.write("skills/release/SKILL.md", text);
    test.write("skills/broken/SKILL.md", "---\nname: other\n---\n");
    test.write("skills/notes/readme.md", "no skill");
}

#[test]
fn find_looks_at_names_descriptions_and_text_of_what_is_embedded_and_installed() {
    let test = Test::new();
    test.ok("skills find CUDA attention").expect(0, &["cuda-kernels", "embedded"]);
    test.run("skills find no-such-word").expect(1, &["nothing found", "1 skill"]);

    skills(&test);
    test.ok("skills add skills/release --claude --codex");
    let ran = test.ok("skills find changelog");
    ran.expect(
        0,
        &["release", ".claude/skills/release", ".codex/skills/release", "SKILL.md:7: Ask for the Changelog."],
    );
    assert!(!ran.out.contains("cuda-kernels"), "{ran:#?}");
    // Also what another tool put there.
    write_skill(&test.home.join(".cursor/skills/elsewhere"), "elsewhere", "1");
    test.ok("skills find elsewhere").expect(0, &["~/.cursor/skills/elsewhere"]);

    let report = test.json("skills find version ships");
    assert_eq!(report["skills"][0]["name"], "release");
    assert_eq!(report["skills"][0]["line"], serde_json::Value::Null);
    assert_eq!(report["skills"].as_array().unwrap().len(), 1);
}

#[test]
fn find_in_a_folder_or_an_archive_looks_there_alone() {
    let test = Test::new();
    skills(&test);
    test.ok("skills find notes --in skills").expect(0, &["release", "Use when a version ships."]);
    test.run("skills find cuda --in skills").expect(1, &["nothing found in 2 skills"]);
    test.ok("skills find thing --in skills/review").expect(0, &["review 2"]);
    test.ok("skills pack skills/review -o review.skill");
    test.ok("skills find thing --in review.skill").expect(0, &["review 2"]);
    test.run("skills find thing --in nowhere").expect(1, &["nowhere"]);
}

#[test]
fn find_prints_no_escapes_of_a_hostile_skill_and_follows_no_link() {
    let test = Test::new();
    let text = "---\nname: evil\ndescription: \"Use when\\e]0;owned\\a \\u202Eodd\"\n---\n\u{1b}[2Jcleared word\n";
    test.write(".claude/skills/evil/SKILL.md", text);
    write(&test.outside().join("secret"), "a secret word\n");
    std::fs::create_dir_all(test.at(".claude/skills/linked")).unwrap();
    symlink(test.outside().join("secret"), test.at(".claude/skills/linked/SKILL.md")).unwrap();
    test.write(".claude/skills/od\u{1b}[2Jd/SKILL.md", "---\nname: odd\ndescription: a word\n---\n");
    let ran = test.ok("skills find word");
    assert!(!ran.out.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{ran:#?}");
    assert!(!ran.out.contains("secret"), "{ran:#?}");
    assert!(!test.ok("skills find word --json").out.contains("secret"));
}

#[test]
fn add_list_shows_what_a_source_holds_and_installs_nothing() {
    let test = Test::new();
    skills(&test);
    let before = snapshot(test.root());
    test.ok("skills add --list").expect(0, &["1 skill in this kernels", "cuda-kernels"]);
    let ran = test.ok("skills add skills -l");
    ran.expect(0, &["3 skills in skills", "release", "review 2", "broken", "cannot be installed:"]);
    let report = test.json("skills add skills --list");
    let rows = report["skills"].as_array().unwrap();
    let installable: Vec<_> = rows.iter().map(|row| (row["name"].as_str(), row["installable"].as_bool())).collect();
    assert_eq!(
        installable,
        [(Some("broken"), Some(false)), (Some("release"), Some(true)), (Some("review"), Some(true))]
    );
    test.ok("skills add skills/review --list --claude").expect(0, &["1 skill in"]);
    test.run("skills add nowhere/x --list").expect(1, &["nowhere"]);
    assert_eq!(snapshot(test.root()), before);
}
