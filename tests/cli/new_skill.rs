//! `kernels skills init`: a new skill, and nothing over anything.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Ran, Test, exists, names, program, snapshot};

#[test]
fn a_new_skill_is_valid_can_be_installed_and_shows_where_it_lies() {
    let test = Test::new();
    for typed in ["review", "skills/release-notes", "./skills/a1"] {
        test.ok(&format!("skills init {typed}")).expect(0, &["SKILL.md", "kernels skills validate"]);
        test.ok(&format!("skills validate --strict {typed}")).expect(0, &["valid"]);
    }
    test.ok("skills add ./review --claude").expect(0, &["review 0.1.0"]);
    let report = test.json("skills init other");
    assert_eq!(report["name"], "other");
    assert_eq!(report["path"], test.at("other/SKILL.md").to_str().unwrap());
}

#[test]
fn a_name_that_no_skill_can_have_is_refused_with_one_that_it_can() {
    let test = Test::new();
    for (typed, close) in [("Code_Review", "code-review"), ("skills/a__b", "a-b"), ("UP", "up")] {
        test.run(&format!("skills init {typed}")).expect(2, &[&format!("did you mean {close}?")]);
    }
    for typed in ["skills init ..", "skills init --", "skills init é"] {
        assert_eq!(test.run(typed).code, 2, "{typed}");
    }
    assert_eq!(snapshot(&test.project).len(), 1, "something was written");
}

/// A limit of the shell for the size of files stands for a full disk.
#[test]
fn a_disk_that_is_full_leaves_nothing_that_is_in_the_way() {
    let test = Test::new();
    test.write("notes/todo.md", "mine");
    let before = snapshot(&test.project);
    for name in ["review", "skills/deep/review", "notes"] {
        let mut command = test.command_of("/bin/sh");
        let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" skills init \"$1\"";
        let ran = Ran::of(command.args(["-c", script, program(), name]));
        ran.expect(1, &[&format!("{name}/SKILL.md"), "cannot write"]);
        assert_eq!(snapshot(&test.project), before, "{name}");
    }
    // What a killed run left goes as well.
    test.write("notes/.SKILL.md.1-2-3.tmp", "---");
    test.ok("skills init notes");
    assert_eq!(names(&test.at("notes")), ["SKILL.md", "todo.md"]);
    test.ok("skills init skills/deep/review");
    test.ok("skills validate --strict notes skills/deep/review");
}

#[test]
fn what_is_there_is_left_alone() {
    let test = Test::new();
    test.write("review/SKILL.md", "mine");
    test.write("notes/todo.md", "mine");
    symlink("/nowhere", test.at("notes/SKILL.md")).unwrap();
    let before = snapshot(&test.project);
    test.run("skills init review").expect(3, &["refused", "review/SKILL.md", "is there already"]);
    test.run("skills init notes").expect(3, &["notes/SKILL.md"]);
    assert_eq!(snapshot(&test.project), before);

    // A folder without a SKILL.md becomes a skill.
    fs::remove_file(test.at("notes/SKILL.md")).unwrap();
    test.ok("skills init notes");
    assert_eq!(fs::read_to_string(test.at("notes/todo.md")).unwrap(), "mine");
    test.write("file", "mine");
    test.run("skills init file").expect(1, &["file"]);
    assert!(!exists(test.at("file/SKILL.md")));
}

/// What it says can be copied into a shell.
#[test]
fn init_names_commands_that_work() {
    let test = Test::new();
    for folder in ["a b/one".to_owned(), test.home.join("c d/two").display().to_string(), "three".to_owned()] {
        let ran = Ran::ok(test.command().args(["skills", "init", &folder]));
        let add = ran.out.split('`').find(|part| part.starts_with("kernels skills add")).unwrap();
        let script = format!("{} --claude", add.replacen("kernels", "\"$0\"", 1));
        Ran::ok(test.command_of("/bin/sh").args(["-c", &script, program()]));
        let name = folder.rsplit('/').next().unwrap();
        assert!(exists(test.at(&format!(".claude/skills/{name}/SKILL.md"))), "{add}");
    }
}
