//! `kernels skills list`, `status`, `diff`, `update`, `remove`.

use std::fs;

use crate::support::{self, Test, exists, snapshot, tree, write, write_skill};

#[test]
fn status_tells_every_state_apart_and_exits_1_unless_all_is_current() {
    let test = Test::new();
    test.ok("skills status").expect(0, &["nothing is installed"]);
    test.run("skills status cuda-kernels").expect(1, &["not installed"]);
    test.ok("skills add --claude --codex --opencode --cursor --gemini");
    test.ok("skills status").expect(0, &["current"]);
    let at = |agent: &str| test.project.join(agent).join("skills/cuda-kernels");
    write(&at(".claude").join("SKILL.md"), "mine");
    fs::remove_file(at(".codex").join("SKILL.md")).unwrap();
    fs::remove_dir_all(at(".opencode")).unwrap();
    write(&at(".opencode").join("SKILL.md"), "foreign");
    make_newer(&at(".cursor"));
    for (agent, state) in [
        (".claude", "modified"),
        (".codex", "missing files"),
        (".opencode", "foreign"),
        (".cursor", "newer"),
        (".gemini", "current"),
    ] {
        assert_eq!(test.state(&format!("{agent}/skills/cuda-kernels")), state, "{agent}");
    }
    test.run("skills status").expect(1, &["M SKILL.md", "D SKILL.md", "newer"]);
    test.run("skills status --gemini").expect(0, &["current"]);
    test.run("skills status --claude").expect(1, &["modified"]);
}

/// Rewrites an install and its receipt to those of a later release.
fn make_newer(folder: &std::path::Path) {
    let file = folder.join(".kernels.json");
    let mut receipt: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    receipt["version"] = "999.0.0".into();
    receipt["tree"] = "0".repeat(64).into();
    fs::write(file, receipt.to_string()).unwrap();
}

#[test]
fn update_replaces_stale_repairs_missing_and_leaves_edited_alone() {
    let test = Test::new();
    let source = test.project.join("skills-src/demo");
    write_skill(&source, "demo", "1");
    test.ok("skills add skills-src/demo --claude --codex --opencode");
    let at = |agent: &str| test.project.join(agent).join("skills/demo");
    test.ok("skills update").expect(0, &["unchanged"]);

    write_skill(&source, "demo", "2");
    fs::remove_file(at(".codex").join("references/guide.md")).unwrap();
    write(&at(".opencode").join("SKILL.md"), "mine");
    assert_eq!(test.state(".claude/skills/demo"), "stale");
    let edited = snapshot(at(".opencode"));
    test.run("skills update").expect(3, &["updated", "repaired", "refused", ".opencode", "M SKILL.md"]);
    assert_eq!(tree(at(".claude")), tree(&source));
    assert_eq!(tree(at(".codex")), tree(&source));
    assert_eq!(snapshot(at(".opencode")), edited);

    test.ok("skills update --force").expect(0, &["kept in"]);
    assert_eq!(tree(at(".opencode")), tree(&source));
    let backups = test.project.join(".opencode/.kernels/backups");
    let backup = fs::read_dir(backups).unwrap().next().unwrap().unwrap().path();
    assert_eq!(snapshot(backup), edited);
    test.ok("skills status").expect(0, &["current"]);
}

#[test]
fn update_never_goes_back_and_says_what_it_cannot_update() {
    let test = Test::new();
    test.ok("skills add --claude");
    let claude = test.project.join(".claude/skills/cuda-kernels");
    make_newer(&claude);
    let before = snapshot(&claude);
    test.ok("skills update").expect(0, &["newer", "left as it is"]);
    test.run("skills add --claude").expect(3, &["newer"]);
    assert_eq!(snapshot(&claude), before);
    let source = test.skill("demo", "1");
    test.ok(&format!("skills add {} --codex", source.display()));
    test.run("skills update").expect(1, &["demo", "outside the project", "skills add PATH"]);
}

#[test]
fn diff_shows_a_persons_edits_as_a_unified_diff() {
    let test = Test::new();
    test.run("skills diff").expect(1, &["nothing is installed"]);
    test.ok("skills add --claude");
    test.ok("skills diff").expect(0, &["no edits"]);
    let folder = test.project.join(".claude/skills/cuda-kernels");
    let skill_md = folder.join("SKILL.md");
    let original = fs::read_to_string(&skill_md).unwrap();
    let edited = format!("{original}a line of mine\n");
    fs::write(&skill_md, &edited).unwrap();
    write(&folder.join("mine.md"), "new\n");
    write(&folder.join("blob"), b"\0\xff");
    fs::remove_file(folder.join("references/troubleshooting.md")).unwrap();
    let ran = test.ok("skills diff");
    ran.expect(0, &["+a line of mine", "--- /dev/null", "+++ /dev/null", "+new", "Binary files"]);

    // `patch` accepts the diff: applied to the original, it yields the edit.
    fs::remove_file(folder.join("blob")).unwrap();
    let patch = test.ok("skills diff").out;
    let copy = test.root().join("copy");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/skills/cuda-kernels");
    support::copy(std::path::Path::new(source), &copy.join("cuda-kernels"));
    fs::write(copy.join("diff"), patch).unwrap();
    let patched = std::process::Command::new("patch")
        .current_dir(&copy)
        .args(["-p1", "-i", "diff"])
        .output()
        .expect("patch can be run");
    assert!(patched.status.success(), "{patched:?}");
    assert_eq!(tree(copy.join("cuda-kernels")), tree(&folder));
}

#[test]
fn remove_takes_the_skill_and_the_folders_it_made() {
    let test = Test::new();
    let before = snapshot(&test.project);
    test.ok("skills add --claude --codex");
    test.ok("skills remove cuda-kernels").expect(0, &["removed", ".claude", ".codex"]);
    assert_eq!(snapshot(&test.project), before);

    // Existing files stay.
    fs::create_dir_all(test.project.join(".claude/skills")).unwrap();
    let before = snapshot(&test.project);
    test.ok("skills add --claude");
    test.ok("skills remove cuda-kernels --claude");
    assert_eq!(snapshot(&test.project), before);
}

#[test]
fn remove_of_what_is_not_there_fails_and_says_where_it_is() {
    let test = Test::new();
    test.run("skills remove cuda-kernels").expect(1, &["not installed"]);
    test.run("skills remove no-such-skill").expect(1, &["no-such-skill"]);
    test.ok("skills add --claude --global");
    test.run("skills remove cuda-kernels").expect(1, &["--global", "~/.claude"]);
    test.run("skills remove ../../etc --claude").expect(1, &["not installed"]);
    assert!(exists(test.home.join(".claude/skills/cuda-kernels")));
    test.ok("skills remove cuda-kernels --global");
    assert_eq!(snapshot(&test.home).len(), 0);
}

#[test]
fn remove_of_an_edit_is_refused_and_force_keeps_a_backup() {
    let test = Test::new();
    test.ok("skills add --claude --codex");
    let claude = test.project.join(".claude/skills/cuda-kernels");
    write(&claude.join("SKILL.md"), "mine");
    let before = snapshot(&test.project);
    test.run("skills remove cuda-kernels").expect(3, &["M SKILL.md", "--force"]);
    assert_eq!(snapshot(&test.project), before, "a refusal changed something");
    let edited = snapshot(&claude);
    let report = test.json("skills remove cuda-kernels --force");
    let kept: Vec<_> = report["removed"].as_array().unwrap().iter().filter_map(|r| r["backup"].as_str()).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(snapshot(kept[0]), edited);
    assert!(!exists(&claude));
}

#[test]
fn remove_never_leaves_a_link_to_nothing() {
    let test = Test::new();
    test.ok("skills add --codex --agents");
    test.run("skills remove cuda-kernels --agents").expect(3, &["links to", ".codex"]);
    test.ok("skills remove cuda-kernels --codex");
    assert!(exists(test.project.join(".agents/skills/cuda-kernels/SKILL.md")));
    test.ok("skills add --codex");
    test.ok("skills remove cuda-kernels --codex --agents");
    assert!(!exists(test.project.join(".agents/skills/cuda-kernels")));
    assert!(!exists(test.project.join(".codex/skills/cuda-kernels")));
}

#[test]
fn dry_runs_of_remove_and_update_touch_nothing() {
    let test = Test::new();
    test.ok("skills add --claude");
    fs::remove_file(test.project.join(".claude/skills/cuda-kernels/SKILL.md")).unwrap();
    let before = snapshot(test.root());
    test.ok("skills update --dry-run").expect(0, &["repair"]);
    test.ok("skills remove cuda-kernels --dry-run").expect(0, &["remove"]);
    assert_eq!(snapshot(test.root()), before);
}

#[test]
fn list_shows_what_is_embedded_and_what_is_installed() {
    let test = Test::new();
    test.ok("skills list").expect(0, &["cuda-kernels", "nothing here"]);
    test.ok("skills add --claude");
    let source = test.skill("demo", "7");
    test.ok(&format!("skills add {} --global --codex", source.display()));
    let report = test.json("skills list");
    assert_eq!(report["embedded"][0]["name"], "cuda-kernels");
    let installed: Vec<_> = report["installed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["scope"].as_str().unwrap()))
        .collect();
    assert_eq!(installed, [("cuda-kernels", "project"), ("demo", "user")]);
}

#[test]
fn dest_installs_are_managed_like_others() {
    let test = Test::new();
    test.ok("skills add --dest tools");
    test.ok("skills status --dest tools").expect(0, &["current"]);
    write(&test.project.join("tools/cuda-kernels/SKILL.md"), "mine");
    test.run("skills status --dest tools").expect(1, &["modified"]);
    let refused = test.run("skills update --dest tools").expect(3, &["M SKILL.md", "--dest"]).err.clone();
    // What the refusal names shows the edits.
    let named = refused.split('`').find(|quoted| quoted.starts_with("kernels skills diff")).unwrap();
    test.ok(named.strip_prefix("kernels ").unwrap()).expect(0, &["+mine"]);
    test.ok("skills remove cuda-kernels --dest tools --force").expect(0, &["kept in"]);
    assert!(!exists(test.project.join("tools/cuda-kernels")));
}

/// The original of what was copied to another agent is nobody's install.
#[test]
fn remove_all_leaves_what_kernels_did_not_install() {
    let test = Test::new();
    write_skill(&test.at(".claude/skills/mine"), "mine", "1");
    let before = snapshot(test.at(".claude"));
    test.ok("skills add .claude/skills/mine --codex");
    test.ok("skills remove --all");
    assert!(snapshot(test.at(".claude")) == before && !exists(test.at(".codex/skills/mine")));
    test.ok("skills add .claude/skills/mine --codex");
    test.ok("skills remove --all --force");
    assert!(snapshot(test.at(".claude")) == before && !exists(test.at(".codex")));
}

/// Its own source is gone, so that nobody else has it.
#[test]
fn the_last_copy_of_a_skill_is_kept_when_another_of_its_name_replaces_it() {
    let kept = |test: &Test| {
        let backups = test.json("skills backups")["backups"].as_array().unwrap().clone();
        let notes = backups.iter().map(|one| test.at(one["path"].as_str().unwrap()).join("notes.md"));
        (backups.len(), notes.filter(|notes| exists(notes)).count())
    };
    for link in ["", " --agents --link"] {
        let test = Test::new();
        let precious = test.skill("demo", "1");
        write(&precious.join("notes.md"), "precious\n");
        write_skill(&test.at("mine/demo"), "demo", "2");
        let typed = format!("skills add {} --claude", precious.display());
        test.ok(&typed);
        write_skill(&precious, "demo", "1.1");
        test.ok(&typed).expect(0, &["updated"]);
        assert_eq!(kept(&test).0, 0, "of the same source nothing is kept");
        fs::remove_dir_all(&precious).unwrap();
        if link.is_empty() {
            fs::remove_file(test.at(".claude/skills/demo/references/guide.md")).unwrap();
        }
        let typed = format!("skills add mine/demo --claude{link}");
        test.ok(&format!("{typed} --dry-run")).expect(0, &["back up, update"]);
        test.ok(&typed).expect(0, &["whose source is gone or not known, is kept in"]);
        assert_eq!(kept(&test), (1, 1), "{typed}");
    }
    let test = Test::new();
    write_skill(&test.at("one/demo"), "demo", "1");
    write_skill(&test.at("two/demo"), "demo", "2");
    test.ok("skills add one/demo --claude");
    test.ok("skills add two/demo --claude");
    assert_eq!(kept(&test).0, 0, "the source of the first is there");
    write_skill(&test.at("one/demo"), "demo", "3");
    write(&test.at("one/demo/notes.md"), "precious\n");
    test.ok("skills add one/demo --claude --agents");
    fs::remove_dir_all(test.at("one/demo")).unwrap();
    fs::create_dir(test.at("one/demo")).unwrap();
    write_skill(&test.at("two/demo"), "demo", "4");
    test.ok("skills add two/demo --claude --agents --link")
        .expect(0, &["whose source is gone or not known, is kept in"]);
    assert!(kept(&test).1 > 0);
}

/// Also of agents whose folder has three parts.
#[test]
fn without_a_repository_the_current_folder_is_the_project() {
    let test = Test::without_git();
    for agent in ["tabnine-cli", "claude-code"] {
        write_skill(&test.at("source/demo"), "demo", "1");
        test.ok(&format!("skills add source/demo --agent {agent}"));
        test.ok("skills status").expect(0, &["current"]);
        test.ok("skills update").expect(0, &["unchanged"]);
        test.ok("skills remove demo");
    }
    // A clone in it is somebody else's: its receipts lead to nothing outside of it.
    write_skill(&test.at("private/demo"), "demo", "2");
    write_skill(&test.at("clone/source/demo"), "demo", "1");
    fs::create_dir(test.at("clone/.git")).unwrap();
    test.run_in(&test.at("clone"), "skills add source/demo --claude").expect(0, &[]);
    let receipt = "clone/.claude/skills/demo/.kernels.json";
    let text = fs::read_to_string(test.at(receipt)).unwrap();
    test.write(receipt, text.replace("../../source/demo", "../../../private/demo"));
    test.run("skills update --dest clone/.claude/skills").expect(1, &["outside the project"]);
}
