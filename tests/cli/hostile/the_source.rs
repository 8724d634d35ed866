//! A skill folder with links, pipes, unusual names, or too many bytes.

use super::*;

/// The source is refused with a message that names the file; nothing is installed.
fn is_refused(put: impl Fn(&Test, &Path), words: &[&str]) {
    let test = Test::hostile();
    put(&test, &test.outside().join("v1/demo"));
    test.refuses("skills add V1 --claude", 1, words);
    test.refuses("skills pack V1 -o x.skill", 1, words);
    test.run("skills validate --json V1").expect_any(&[0, 1]);
    assert!(!test.at(".claude").exists());
}

#[test]
fn has_links() {
    is_refused(|_, skill| symlink("/etc/passwd", skill.join("passwd")).unwrap(), &["demo/passwd", "link"]);
    is_refused(
        |test, skill| symlink(test.outside(), skill.join("references/all")).unwrap(),
        &["references/all", "link"],
    );
    is_refused(|_, skill| symlink("nowhere", skill.join("dangling")).unwrap(), &["demo/dangling", "link"]);
    is_refused(
        |test, skill| {
            fs::rename(skill.join("SKILL.md"), test.outside().join("SKILL.md")).unwrap();
            symlink("../../SKILL.md", skill.join("SKILL.md")).unwrap();
        },
        &["demo/SKILL.md", "link"],
    );
    is_refused(|_, skill| symlink("..", skill.join("loop")).unwrap(), &["demo/loop", "link"]);
}

#[test]
fn has_pipes_and_sockets() {
    is_refused(|_, skill| pipe_at(&skill.join("pipe")), &["demo/pipe"]);
    is_refused(|_, skill| drop(UnixListener::bind(skill.join("socket")).unwrap()), &["demo/socket"]);
    is_refused(
        |_, skill| {
            fs::remove_file(skill.join("SKILL.md")).unwrap();
            pipe_at(&skill.join("SKILL.md"));
        },
        &["demo/SKILL.md"],
    );
}

#[test]
fn has_names_that_cannot_travel() {
    for name in ["a\nb", "a\\b", "C:x", "a:b", "\u{7f}", "a\tb"] {
        is_refused(|_, skill| write(&skill.join(name), "x"), &["demo"]);
    }
    is_refused(|_, skill| write(&skill.join(OsStr::from_bytes(b"\xff.md")), "x"), &["demo", "UTF-8"]);
    is_refused(
        |_, skill| {
            write(&skill.join("Case.md"), "x");
            write(&skill.join("case.md"), "y");
        },
        &["Case.md", "case.md"],
    );
    is_refused(
        |_, skill| {
            write(&skill.join("caf\u{e9}"), "x");
            write(&skill.join("cafe\u{301}"), "y");
        },
        &["caf"],
    );
}

#[test]
fn has_names_that_are_only_unusual() {
    let test = Test::hostile();
    let skill = test.outside().join("v1/demo");
    for name in ["with space.md", "😀/🚀.md", "-rf", "~", "$HOME", "%s%n", "日本.md", "...", "a'b\"c"] {
        write(&skill.join(name), name);
    }
    write(&skill.join("x".repeat(255)), "long");
    test.ok("skills add V1 --claude");
    assert!(test.holds_version(CLAUDE, "1"));
    test.is_unedited();
    test.ok("skills pack V1 -o x.skill");
    test.ok("skills remove demo");
    test.ok("skills add x.skill --claude");
    assert!(test.holds_version(CLAUDE, "1"));
}

#[test]
fn is_too_large() {
    is_refused(
        |_, skill| {
            File::create(skill.join("big")).unwrap().set_len(30_000_000_000).unwrap();
        },
        &["25 MB"],
    );
    is_refused(
        |_, skill| {
            for n in 0..1_000 {
                write(&skill.join(format!("many/{n}")), "");
            }
        },
        &["1000"],
    );
}

#[test]
fn is_not_there_or_no_folder() {
    let test = Test::hostile();
    test.write("file", "x");
    pipe_at(&test.at("pipe"));
    for (typed, word) in [
        ("./nowhere", "nowhere"),
        ("file", "file"),
        ("./pipe", "pipe"),
        ("/dev/null", "/dev/null"),
        ("/dev/zero", "/dev/zero"),
        ("/", "/"),
        ("..", ".."),
        ("/proc/self/fd", "/proc"),
    ] {
        test.refuses(&format!("skills add {typed} --claude"), 1, &[word]);
    }
    let ran = Ran::of(test.command().args(["skills", "add", "", "--claude"]));
    ran.expect_any(&[1, 2]);
}

/// A receipt, which is JSON, cannot name it.
#[test]
fn lies_in_the_project_below_a_name_that_is_not_utf8() {
    let test = Test::hostile();
    let folder = test.project.join(OsStr::from_bytes(b"s\xff"));
    support::copy(&test.source("v1"), &folder.join("demo"));
    let mut command = test.command();
    Ran::ok(command.args(["skills", "add"]).arg(folder.join("demo")).arg("--claude"));
    for typed in ["skills status", "skills update", "doctor"] {
        test.run(typed).expect(1, &[CLAUDE, "or its path is not UTF-8", "skills add PATH"]);
    }
    test.run("skills sync --init").expect(1, &[CLAUDE, "not UTF-8"]);
}

#[test]
fn is_the_destination_itself() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    test.ok("skills add .claude/skills/demo --claude");
    assert!(test.holds_version(CLAUDE, "1"));
    test.write(&format!("{CLAUDE}/mine.md"), "mine\n");
    for typed in ["skills add .claude/skills/demo --claude", "skills add .claude/skills/demo --claude --force"] {
        test.ok(typed).expect(0, &["unchanged", CLAUDE]);
        assert!(test.at(CLAUDE).join("mine.md").exists());
        // The edit is none of what was installed from elsewhere: the receipt stays as well.
        assert_eq!(test.state(CLAUDE), "modified");
    }
    test.ok("skills add .claude/skills/demo --claude --codex --link");
    assert!(test.at(CLAUDE).join("mine.md").exists());
    assert!(test.at(".codex/skills/demo/mine.md").exists());
}
