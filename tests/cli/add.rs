//! `kernels skills add`: where a skill goes, what is protected, what is linked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Ran, Test, area, copy, exists, script, snapshot, tree, write, write_skill};

const EMBEDDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/skills/cuda-kernels");

#[test]
fn add_cuda_kernels_claude_puts_the_whole_skill_at_the_git_root() {
    let test = Test::new();
    let below = test.project.join("src/deep");
    fs::create_dir_all(&below).unwrap();
    let ran = test.run_in(&below, "skills add cuda-kernels --claude");
    ran.expect(0, &["installed", "git root", test.project.to_str().unwrap()]);
    let installed = test.project.join(".claude/skills/cuda-kernels");
    assert_eq!(tree(installed), tree(EMBEDDED));
    assert!(area(&test.project.join(".claude")).is_empty(), "a change was left behind");
    assert_eq!(snapshot(&test.home).len(), 0, "a project install wrote to the home");
    assert_eq!(test.state(".claude/skills/cuda-kernels"), "current");
}

#[test]
fn add_without_a_name_means_cuda_kernels() {
    let test = Test::new();
    test.ok("skills add --claude").expect(0, &["cuda-kernels"]);
    assert!(exists(test.project.join(".claude/skills/cuda-kernels/SKILL.md")));
}

#[test]
fn add_outside_a_repository_goes_to_the_current_folder_and_says_so() {
    let test = Test::without_git();
    let below = test.project.join("a");
    fs::create_dir(&below).unwrap();
    test.run_in(&below, "skills add --claude").expect(0, &["no git here"]);
    assert!(exists(below.join(".claude/skills/cuda-kernels/SKILL.md")));
}

#[test]
fn every_flag_goes_where_its_agent_looks() {
    for (flags, folder) in [
        ("--claude", ".claude/skills"),
        ("--codex", ".codex/skills"),
        ("--opencode", ".opencode/skills"),
        ("--cursor", ".cursor/skills"),
        ("--gemini", ".gemini/skills"),
        ("--copilot", ".github/skills"),
        ("--agents", ".agents/skills"),
        ("--agent kiro", ".kiro/skills"),
        ("--agent amp", ".agents/skills"),
        ("--dest my/skills", "my/skills"),
    ] {
        let test = Test::new();
        test.ok(&format!("skills add cuda-kernels {flags}"));
        assert_eq!(tree(test.project.join(folder).join("cuda-kernels")), tree(EMBEDDED), "{flags}");
    }
    for (flags, folder) in [
        ("--claude", ".claude/skills"),
        ("--codex", ".codex/skills"),
        ("--opencode", ".config/opencode/skills"),
        ("--copilot", ".copilot/skills"),
        ("--agents", ".agents/skills"),
        ("--agent amp", ".config/agents/skills"),
    ] {
        let test = Test::new();
        test.ok(&format!("skills add cuda-kernels --global {flags}"));
        assert_eq!(tree(test.home.join(folder).join("cuda-kernels")), tree(EMBEDDED), "{flags}");
        assert_eq!(snapshot(&test.project).len(), 1, "--global wrote to the project");
    }
}

#[test]
fn variables_move_the_user_level_folders() {
    let test = Test::new();
    let moved = test.root().join("moved");
    fs::create_dir(&moved).unwrap();
    for (flag, variable, folder) in [
        ("--claude", "CLAUDE_CONFIG_DIR", "skills"),
        ("--codex", "CODEX_HOME", "skills"),
        ("--opencode", "XDG_CONFIG_HOME", "opencode/skills"),
        ("--gemini", "GEMINI_CLI_HOME", ".gemini/skills"),
        ("--copilot", "COPILOT_HOME", "skills"),
    ] {
        let base = moved.join(variable);
        let ran = Ran::of(test.command().env(variable, &base).args(["skills", "add", "--global", flag]));
        ran.expect(0, &[]);
        assert!(exists(base.join(folder).join("cuda-kernels/SKILL.md")), "{variable}");
    }
    assert_eq!(snapshot(&test.home).len(), 0);
}

#[test]
fn global_without_an_agent_finds_the_agents_on_the_machine() {
    let test = Test::new();
    test.ok("skills add --global");
    assert!(exists(test.home.join(".claude/skills/cuda-kernels/SKILL.md")));
    assert!(exists(test.home.join(".agents/skills/cuda-kernels/SKILL.md")));
    let test = Test::new();
    fs::create_dir_all(test.home.join(".config/opencode")).unwrap();
    let program = test.root().join("bin/codex");
    script(&program, "");
    let path = program.parent().unwrap();
    Ran::of(test.command().env("PATH", path).args(["skills", "add", "--global"])).expect(0, &[]);
    assert!(exists(test.home.join(".config/opencode/skills/cuda-kernels")));
    assert!(exists(test.home.join(".codex/skills/cuda-kernels")));
    assert!(!exists(test.home.join(".claude")));
}

#[test]
fn add_without_a_target_and_without_a_terminal_names_the_flags() {
    let test = Test::new();
    test.run("skills add").expect(2, &["--claude", "--codex", "--opencode", "--dest", "--global"]);
    test.run("skills add --agent nobody").expect(2, &["nobody", "kernels skills agents"]);
    test.run("skills add --dest x --global").expect(2, &["--dest"]);
    assert_eq!(snapshot(&test.project).len(), 1);
}

#[test]
fn add_twice_changes_nothing_the_second_time() {
    let test = Test::new();
    test.ok("skills add --claude --codex");
    let before = snapshot(&test.project);
    test.ok("skills add --claude --codex").expect(0, &["unchanged"]);
    assert_eq!(snapshot(&test.project), before);
}

#[test]
fn dry_run_prints_the_plan_and_touches_nothing() {
    let test = Test::new();
    let before = snapshot(test.root());
    test.ok("skills add --claude --codex --agents --dry-run")
        .expect(0, &["plan", "install", ".claude/skills/cuda-kernels", "link"]);
    let report = test.json("skills add --claude --dry-run");
    assert_eq!(report["dry_run"], true);
    assert_eq!(report["steps"][0]["action"], "install");
    assert_eq!(snapshot(test.root()), before);
}

#[test]
fn add_over_an_edit_is_refused_names_the_files_and_force_keeps_a_backup() {
    let test = Test::new();
    test.ok("skills add --claude");
    let installed = test.project.join(".claude/skills/cuda-kernels");
    write(&installed.join("SKILL.md"), "mine now");
    write(&installed.join("notes/mine.md"), "my notes");
    fs::remove_file(installed.join("references/troubleshooting.md")).unwrap();
    let before = snapshot(&test.project);
    let words = ["refused", "M SKILL.md", "A notes/mine.md", "D references/troubleshooting.md", "diff", "--force"];
    test.run("skills add --claude").expect(3, &words);
    // The same with another, unmodified agent: the skill is installed for all agents or for none.
    test.run("skills add --claude --opencode").expect(3, &words);
    assert_eq!(snapshot(&test.project), before);

    let edited = snapshot(&installed);
    let report = test.json("skills add --claude --force");
    let backup = Path::new(report["steps"][0]["backup"].as_str().unwrap()).to_path_buf();
    assert_eq!(snapshot(&backup), edited);
    assert_eq!(tree(&installed), tree(EMBEDDED));
    assert!(backup.starts_with(test.project.join(".claude/.kernels/backups")));
    let ignore = fs::read_to_string(test.project.join(".claude/.kernels/.gitignore")).unwrap();
    assert_eq!(ignore, "*\n", "backups would be committed");
}

#[test]
fn add_over_something_foreign_is_refused_and_force_keeps_a_backup() {
    let test = Test::new();
    let dest = test.project.join(".claude/skills/cuda-kernels");
    write(&dest.join("SKILL.md"), "---\nname: cuda-kernels\ndescription: other\n---\n");
    test.run("skills add --claude").expect(3, &["not installed by kernels", "--force"]);
    assert_eq!(test.state("cuda-kernels"), "foreign");
    let report = test.json("skills add --claude --force");
    let backup = report["steps"][0]["backup"].as_str().unwrap();
    assert!(fs::read_to_string(Path::new(backup).join("SKILL.md")).unwrap().contains("other"));
    assert_eq!(test.state("cuda-kernels"), "current");
}

#[test]
fn a_copy_without_a_receipt_is_recognised_and_adopted() {
    let test = Test::new();
    test.ok("skills add --claude");
    let dest = test.project.join(".claude/skills/cuda-kernels");
    fs::remove_file(dest.join(".kernels.json")).unwrap();
    assert_eq!(test.state("cuda-kernels"), "current");
    test.ok("skills add --claude").expect(0, &["adopted"]);
    assert!(exists(dest.join(".kernels.json")));
}

#[test]
fn what_scripts_leave_behind_is_no_edit() {
    let test = Test::new();
    let source = test.skill("demo", "1");
    test.ok(&format!("skills add {} --claude", source.display()));
    let dest = test.project.join(".claude/skills/demo");
    write(&dest.join("scripts/__pycache__/run.cpython-312.pyc"), b"\xcb\x0d\r\nbytecode");
    write(&dest.join(".DS_Store"), b"\0\0\0\x01Bud1finder");
    test.ok("skills diff").expect(0, &["no edits"]);
    // A nested repository is a user's work and stays.
    write(&dest.join(".git/HEAD"), "ref");
    assert_eq!(test.state("skills/demo"), "modified");
    fs::remove_dir_all(dest.join(".git")).unwrap();
    test.ok("skills remove demo");
    assert!(!exists(dest));
}

/// What only has such a name cannot be written again: bytecode without its source, notes.
#[test]
fn remove_keeps_bytecode_and_notes_that_nothing_writes_again() {
    for (file, bytes) in [
        ("scripts/mine.pyc", &b"\xcb\x0d\r\nbytecode"[..]),
        ("scripts/__pycache__/mine.cpython-312.pyc", b"\xcb\x0d\r\nbytecode"),
        ("scripts/__pycache__/run.cpython-312.pyc", b"my notes"),
        (".DS_Store", b"my notes"),
    ] {
        let test = Test::new();
        let source = test.skill("demo", "1");
        test.ok(&format!("skills add {} --claude", source.display()));
        let mine = test.project.join(".claude/skills/demo").join(file);
        write(&mine, bytes);
        test.run("skills remove demo").expect(3, &[&format!("A {file}")]);
        write_skill(&source, "demo", "2");
        test.run(&format!("skills add {} --claude", source.display())).expect(3, &[file]);
        assert_eq!(fs::read(&mine).unwrap(), bytes);
    }
}

#[test]
fn codex_with_the_shared_folder_gets_a_link_whichever_came_first() {
    let test = Test::new();
    test.ok("skills add --codex --agents");
    let codex = test.project.join(".codex/skills/cuda-kernels");
    let shared = test.project.join(".agents/skills/cuda-kernels");
    assert_eq!(fs::read_link(&codex).unwrap(), Path::new("../../.agents/skills/cuda-kernels"));
    assert_eq!(tree(&shared), tree(EMBEDDED));

    let test = Test::new();
    test.ok("skills add --agents");
    test.ok("skills add --codex").expect(0, &["linked"]);
    assert!(fs::read_link(test.project.join(".codex/skills/cuda-kernels")).is_ok());

    let test = Test::new();
    test.ok("skills add --codex");
    test.ok("skills add --agents").expect(0, &["linked"]);
    let shared = test.project.join(".agents/skills/cuda-kernels");
    assert_eq!(fs::read_link(shared).unwrap(), Path::new("../../.codex/skills/cuda-kernels"));
    test.ok("skills add --agents --codex").expect(0, &["unchanged"]);

    // Two real copies made by another tool become one.
    let test = Test::new();
    test.ok("skills add --codex");
    let shared = test.project.join(".agents/skills");
    fs::create_dir_all(&shared).unwrap();
    copy(&test.project.join(".codex/skills/cuda-kernels"), &shared.join("cuda-kernels"));
    test.ok("skills add --codex").expect(0, &["linked"]);
    let links = [".codex", ".agents"]
        .map(|folder| fs::read_link(test.project.join(folder).join("skills/cuda-kernels")).is_ok());
    assert_eq!(links.iter().filter(|link| **link).count(), 1);
}

#[test]
fn link_makes_one_copy_and_relative_links() {
    let test = Test::new();
    test.ok("skills add --claude --codex --opencode --link");
    let folders = [".claude", ".codex", ".opencode"];
    let at = |folder: &str| test.project.join(folder).join("skills/cuda-kernels");
    let real: Vec<_> = folders.iter().filter(|f| fs::read_link(at(f)).is_err()).collect();
    assert_eq!(real.len(), 1);
    for folder in folders {
        assert_eq!(tree(at(folder).canonicalize().unwrap()), tree(EMBEDDED));
        if let Ok(to) = fs::read_link(at(folder)) {
            assert!(to.is_relative(), "{}", to.display());
        }
    }
    // The links still work after the project has moved.
    let moved = test.root().join("moved");
    fs::rename(&test.project, &moved).unwrap();
    let ran = test.run_in(&moved, "skills status");
    ran.expect(0, &["current"]);
}

#[test]
fn adding_again_keeps_links_and_updates_what_they_lead_to() {
    let test = Test::new();
    let source = test.skill("demo", "1");
    let add = format!("skills add {} --claude --agents", source.display());
    test.ok(&format!("{add} --link"));
    write_skill(&source, "demo", "2");
    test.ok(&format!("skills add {} --claude", source.display()));
    let link = test.project.join(".claude/skills/demo");
    let relative = fs::read_link(&link).unwrap();
    let primary = test.project.join(".agents/skills/demo");
    assert_eq!(tree(&primary), tree(&source));
    // One that somebody made with the whole path leads to the same copy: it is written anew, relative.
    fs::remove_file(&link).unwrap();
    symlink(&primary, &link).unwrap();
    test.ok(&format!("{add} --link"));
    assert_eq!(fs::read_link(&link).unwrap(), relative);
}

#[test]
fn a_link_to_somewhere_else_is_never_written_through() {
    let test = Test::new();
    let elsewhere = test.root().join("checkout/cuda-kernels");
    write(&elsewhere.join("SKILL.md"), "somebody's work");
    let folder = test.project.join(".claude/skills");
    fs::create_dir_all(&folder).unwrap();
    symlink(&elsewhere, folder.join("cuda-kernels")).unwrap();
    test.run("skills add --claude").expect(3, &["is a link to", "--force"]);
    test.ok("skills add --claude --force").expect(0, &["kept in"]);
    assert_eq!(fs::read_to_string(elsewhere.join("SKILL.md")).unwrap(), "somebody's work");
    assert_eq!(snapshot(&elsewhere).len(), 1);
    assert_eq!(tree(folder.join("cuda-kernels")), tree(EMBEDDED));
}

#[test]
fn a_skills_folder_that_leaves_the_project_is_refused() {
    let test = Test::new();
    let elsewhere = test.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(test.project.join(".claude")).unwrap();
    symlink(&elsewhere, test.project.join(".claude/skills")).unwrap();
    test.run("skills add --claude").expect(3, &["leaves the project", "--dest"]);
    assert_eq!(snapshot(&elsewhere).len(), 0);
    // Inside the project this is a common set-up, in which both agents share one copy.
    fs::remove_file(test.project.join(".claude/skills")).unwrap();
    symlink("../.agents/skills", test.project.join(".claude/skills")).unwrap();
    fs::create_dir_all(test.project.join(".agents/skills")).unwrap();
    test.ok("skills add --claude --agents");
    assert_eq!(tree(test.project.join(".agents/skills/cuda-kernels")), tree(EMBEDDED));
    assert!(fs::read_link(test.project.join(".claude/skills")).is_ok());
}

#[test]
fn a_folder_and_an_archive_install_the_same_files() {
    let test = Test::new();
    let source = test.skill("demo", "1");
    write(&source.join("__pycache__/x.pyc"), "no part of it");
    write(&source.join(".git/HEAD"), "no part of it");
    test.ok(&format!("skills add {} --claude", source.display()));
    test.ok(&format!("skills pack {} -o demo.skill", source.display()));
    test.ok("skills add demo.skill --codex");
    let claude = tree(test.project.join(".claude/skills/demo"));
    assert_eq!(claude, tree(test.project.join(".codex/skills/demo")));
    assert!(claude.keys().all(|path| !path.contains("pycache") && !path.contains(".git")));
    assert!(claude["scripts/run.py"].starts_with('x'), "the executable bit is gone");
}

#[test]
fn a_skill_that_no_agent_would_see_is_refused_with_its_line() {
    let test = Test::new();
    for (text, why) in [
        ("\u{feff}---\nname: demo\ndescription: x\n---\n", "byte-order mark"),
        ("---\nname: demo\ndescription: use: this\n---\n", "SKILL.md:3"),
        ("---\nname: other\ndescription: when\n---\n", "must equal the folder's"),
        ("# no header\n", "SKILL.md:1"),
    ] {
        let folder = test.root().join("bad/demo");
        write(&folder.join("SKILL.md"), text);
        let ran = test.run(&format!("skills add {} --claude", folder.display()));
        ran.expect(1, &[why, "kernels skills validate"]);
    }
    test.run("skills add nothing-like-it --claude").expect(1, &["cuda-kernels", "./nothing-like-it"]);
    assert_eq!(snapshot(&test.project).len(), 1, "something was written");
}

#[test]
fn a_receipt_in_a_project_names_nothing_outside_it() {
    let test = Test::new();
    let source = test.skill("demo", "1");
    test.ok(&format!("skills add {} --claude", source.display()));
    let receipt = test.project.join(".claude/skills/demo/.kernels.json");
    let text = fs::read_to_string(receipt).unwrap();
    assert!(!text.contains(test.root().to_str().unwrap()), "{text}");
}

#[test]
fn copies_that_the_same_agent_finds_elsewhere_are_pointed_out() {
    let test = Test::new();
    let source = test.skill("demo", "1");
    let add = |flags: &str| test.ok(&format!("skills add {} {flags}", source.display()));
    add("--claude --codex --agents --global");
    // Equal copies at both levels are a problem for Codex only.
    let ran = add("--claude --codex");
    ran.expect(0, &["Codex finds demo in ~/.codex/skills/demo too, and lists both"]);
    assert!(!ran.err.contains("Claude"), "{ran:#?}");
    write_skill(&source, "demo", "2");
    add("--claude").expect(0, &["uses that one", "remove demo --agent claude --global"]);
    add("--opencode").expect(0, &["OpenCode finds demo in ~/.claude/skills/demo", "may use either"]);
    add("--claude --global").expect(0, &["updated"]);
    // Claude Code uses the one of the user, Copilot CLI that of the project.
    write_skill(&source, "demo", "3");
    add("--claude --global").expect(0, &["Claude Code finds demo", "uses the one just installed"]);
    add("--copilot --global");
    write_skill(&source, "demo", "4");
    add("--copilot").expect(0, &["Copilot CLI finds demo", "uses the one just installed"]);
    write_skill(&source, "demo", "5");
    add("--copilot --global").expect(0, &["Copilot CLI finds demo", "uses that one"]);
}

#[test]
fn quiet_prints_nothing_and_json_is_one_document() {
    let test = Test::new();
    let ran = test.ok("skills add --claude --quiet");
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    let report = test.json("skills add --codex");
    assert_eq!(report["skill"]["name"], "cuda-kernels");
    let path = report["steps"][0]["path"].as_str().unwrap();
    assert!(path.ends_with(".codex/skills/cuda-kernels"));
    write(&test.project.join(".codex/skills/cuda-kernels/SKILL.md"), "mine");
    let refusal = test.json("skills add --codex");
    assert_eq!(refusal["exit_code"], 3);
    assert_eq!(refusal["refused"][0]["changes"][0]["path"], "SKILL.md");
}

#[test]
fn nothing_is_coloured_when_nobody_looks() {
    let test = Test::new();
    let ran = test.ok("skills add --claude");
    assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'));
}

#[test]
fn a_planted_journal_cannot_reach_through_a_planted_link() {
    let test = Test::new();
    let elsewhere = test.home.join(".claude/skills");
    fs::create_dir_all(&elsewhere).unwrap();
    let host = test.project.join(".opencode");
    write(&host.join("skills/keep.md"), "");
    symlink(&elsewhere, host.join("skill")).unwrap();
    let change = host.join(".kernels/txn-1");
    write_skill(&change.join("old"), "evil", "1");
    let journal = r#"{"id":"1","change":"install","skill":"evil","folder":"skill","keep":false,"old":null}"#;
    write(&change.join("journal.json"), journal);
    test.run("skills add --opencode").expect(1, &["txn-1", "is a link"]);
    assert_eq!(snapshot(&elsewhere).len(), 0);
}
