//! `status` and `doctor` say when they could not look, and what agents see that `add` did not put there.

use super::*;

#[track_caller]
fn is_reported(test: &Test, words: &[&str]) {
    test.run("skills status").expect(1, words);
    test.run("doctor").expect(1, words);
    test.run("skills list").expect(0, words);
    let report = test.json("skills status");
    assert!(!report["problems"].as_array().unwrap().is_empty(), "{report:#}");
}

#[test]
fn where_a_folder_of_the_table_is_a_link_to_nothing_or_a_file() {
    for path in [".claude", ".claude/skills", ".opencode/skill"] {
        let test = Test::hostile();
        test.link("nowhere", path);
        is_reported(&test, &[path, "link to nothing"]);
        let test = Test::hostile();
        test.write(path, "a file\n");
        is_reported(&test, &[path, "not a folder"]);
    }
}

#[test]
fn where_a_folder_may_not_be_read() {
    let nobody = without_permission::AsNobody::new();
    nobody.run("skills add V1 --claude").expect(0, &[]);
    for path in [".claude/skills", ".claude"] {
        nobody.mode(path, 0o000);
        nobody.run("skills status").expect(1, &[".claude/skills", "ermission"]);
        nobody.run("doctor").expect(1, &[".claude/skills", "ermission"]);
        nobody.mode(path, 0o755);
    }
    nobody.run("skills remove demo").expect(0, &[]);
    nobody.run("skills status").expect(0, &["nothing is installed"]);
}

/// The same by the agent's name, and by commands that would change what they cannot see.
#[test]
fn where_the_folder_of_a_named_agent_may_not_be_read() {
    let nobody = without_permission::AsNobody::new();
    nobody.run("skills add V1 --claude").expect(0, &[]);
    nobody.run("skills add cuda-kernels --codex").expect(0, &[]);
    nobody.mode(".claude/skills", 0o000);
    let words = [".claude/skills", "ermission", "check who owns"];
    for typed in [
        "skills status --claude",
        "skills status --agent *",
        "skills status --dest .claude/skills",
        "skills update",
        "skills update --claude",
        "skills update --agent *",
        "skills update --dry-run",
        "skills remove --all",
        "skills remove --all --claude",
        "skills remove --all --agent *",
        "skills remove cuda-kernels",
    ] {
        let ran = nobody.run(typed);
        ran.expect(1, &words);
        assert!(!ran.out.contains("nothing is installed"), "{typed}: {ran:#?}");
        nobody.run(&format!("{typed} --json")).expect(1, &words[..2]);
    }
    // Where it was not asked for, it does not matter.
    nobody.run("skills status --codex").expect(0, &["current"]);
    nobody.run("skills status --global").expect(0, &["nothing is installed"]);
    nobody.run("skills remove --all --codex").expect(0, &["removed"]);
    nobody.mode(".claude/skills", 0o755);
    nobody.mode(".claude", 0o000);
    for typed in ["skills update", "skills update --claude", "skills remove --all", "skills remove --all --agent *"] {
        nobody.run(typed).expect(1, &[".claude/skills", "ermission"]);
    }
    nobody.mode(".claude", 0o755);
    nobody.run("skills remove --all").expect(0, &["removed"]);
}

/// Claude Code lists what lies in the folder, wherever it is.
#[test]
fn where_a_link_leaves_the_project() {
    let test = Test::hostile();
    test.link("../../outside/empty", ".claude/skills");
    is_reported(&test, &[".claude/skills", "leaves the project"]);
    test.ok("skills add cuda-kernels --dest ../outside/empty");
    test.run("skills status").expect(1, &["current", "outside/empty/cuda-kernels"]);
    test.run("skills status --dest ../outside/empty").expect(0, &["current"]);
    write(&test.outside().join("empty/cuda-kernels/SKILL.md"), "edited\n");
    test.run("skills status").expect(1, &["modified", "outside/empty/cuda-kernels"]);
    test.run("doctor").expect(1, &["outside/empty/cuda-kernels is modified", "diff --dest"]);
}

/// Claude Code reads the folders between the current one and the git root as well.
#[test]
fn where_an_install_lies_between_here_and_the_git_root() {
    let test = Test::hostile();
    let below = test.at("packages/one");
    fs::create_dir_all(below.join("src")).unwrap();
    test.ok("skills add cuda-kernels --dest packages/one/.claude/skills");
    let run = |typed: &str| Ran::of(test.command().current_dir(below.join("src")).args(test.words(typed)));
    run("skills status").expect(0, &["current"]);
    fs::remove_file(below.join(".claude/skills/cuda-kernels/SKILL.md")).unwrap();
    run("skills status").expect(1, &["missing files"]);
    run("doctor").expect(1, &["missing files", "update --dest"]);
    test.run("skills status").expect(0, &["nothing is installed"]);
}

/// A receipt in a project names nothing outside it, so nobody knows whether the source has changed.
#[test]
fn after_an_install_from_outside_the_project() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    for changed in [false, true] {
        if changed {
            write(&test.outside().join("v1/demo/SKILL.md"), skill_md("demo", "v9"));
        }
        test.run("skills status").expect(1, &["unchecked", "outside the project", "add PATH"]);
        test.run("doctor").expect(1, &["unchecked"]);
        let ran = test.run("skills update");
        ran.expect(1, &["outside the project", "add PATH"]);
        assert!(!ran.err.contains("gone"), "{ran:#?}");
    }
    test.run("skills add V1 --claude").expect(0, &["updated"]);
    // Inside the project, and for the user, it is known.
    test.ok("skills add V2 --claude --global");
    test.run("skills status --global").expect(0, &["current"]);
    write(&test.outside().join("v2/demo/SKILL.md"), skill_md("demo", "v9"));
    test.run("skills status --global").expect(1, &["stale"]);
    fs::remove_dir_all(test.outside().join("v2")).unwrap();
    test.run("skills status --global").expect(1, &["unchecked", "is gone"]);
}

/// What a killed run left is finished by every command that looks.
#[test]
fn looking_cleans_up_what_a_killed_run_left() {
    for typed in ["skills status", "skills list", "doctor", "skills update"] {
        let test = Test::hostile();
        test.ok("skills add cuda-kernels --claude");
        let skill = test.at(".claude/skills/cuda-kernels");
        let old = test.at(".claude/.kernels/txn-x/old");
        fs::create_dir_all(old.parent().unwrap()).unwrap();
        let journal = json!({
            "id": "x", "change": "install", "skill": "cuda-kernels", "folder": "skills", "keep": false, "old": null,
        });
        test.write(".claude/.kernels/txn-x/journal.json", journal.to_string());
        test.write(".claude/.kernels/.gitignore", "*\n");
        fs::rename(&skill, &old).unwrap();
        test.run(typed).expect_any(&[0, 1]);
        assert!(skill.join("SKILL.md").exists(), "{typed}");
        assert!(area(&test.at(".claude")).is_empty(), "{typed}");
        // An area with nothing of use.
        test.write(".codex/.kernels/.gitignore", "*\n");
        test.write(".codex/.kernels/base/unused.skill", "");
        test.run(typed).expect_any(&[0, 1]);
        assert!(!test.at(".codex/.kernels").exists(), "{typed} leaves the .gitignore");
    }
}

#[test]
fn gemini_beside_the_shared_folder_gets_no_second_copy() {
    for level in ["", " --global"] {
        let test = Test::hostile();
        test.run(&format!("skills add cuda-kernels --gemini --agents{level}")).expect(0, &["left out", "conflict"]);
        let base = if level.is_empty() { &test.project } else { &test.home };
        assert!(base.join(".agents/skills/cuda-kernels/SKILL.md").exists());
        assert!(!base.join(".gemini").exists());
        test.run(&format!("skills add cuda-kernels --gemini{level}")).expect(0, &["left out"]);
        assert!(!base.join(".gemini").exists());
    }
    // Its own copy came first: the note says what takes it away.
    let test = Test::hostile();
    test.ok("skills add cuda-kernels --gemini");
    let way_out = "skills remove cuda-kernels --agent gemini";
    test.run("skills add cuda-kernels --agents").expect(0, &["Gemini CLI", "reports a conflict", way_out]);
    test.ok(way_out);
    assert!(!test.ok("skills add cuda-kernels --agents").err.contains("conflict"));
    // A skill that it does not find there is installed.
    let test = Test::hostile();
    test.ok("skills add V1 --agents");
    test.ok("skills add V2 --gemini");
    assert!(test.at(".gemini/skills/demo/SKILL.md").exists());
}

#[test]
fn the_last_five_backups_stay() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    write(&test.at(".claude/.kernels/backups/mine/notes.md"), "mine\n");
    for n in 0..8 {
        test.write(&format!("{CLAUDE}/SKILL.md"), format!("edit {n}\n"));
        let ran = test.run("skills add V1 --claude --force");
        ran.expect(0, &["kept in"]);
        assert_eq!(ran.err.contains("the last 5 backups are kept"), n >= 5, "{n}: {ran:#?}");
    }
    let mut kept: Vec<_> = test.backups().iter().flat_map(|b| fs::read_to_string(b.join("SKILL.md"))).collect();
    kept.sort();
    assert_eq!(kept, ["edit 3\n", "edit 4\n", "edit 5\n", "edit 6\n", "edit 7\n"]);
    assert!(test.at(".claude/.kernels/backups/mine/notes.md").exists());
}
