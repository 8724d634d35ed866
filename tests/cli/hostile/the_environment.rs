//! HOME, the agents' environment variables, the current folder, worktrees, long paths.

use super::*;

#[track_caller]
fn with(test: &Test, set: &[(&str, Option<&OsStr>)], typed: &str) -> Ran {
    let mut command = test.command();
    for (name, value) in set {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Ran::of(command.args(test.words(typed)))
}

#[test]
fn has_no_usable_home() {
    let test = Test::hostile();
    test.write("file", "x");
    let file = test.at("file");
    let before = picture(&test.root());
    for (home, word) in [
        (OsStr::new("relative"), "relative"),
        (OsStr::new("/nowhere/at/all"), "/nowhere/at/all"),
        (file.as_os_str(), "file"),
        (OsStr::from_bytes(b"/tmp/\xff-nowhere"), "HOME"),
    ] {
        let ran = with(&test, &[("HOME", Some(home))], "skills add V1 --claude --global");
        ran.expect(1, &["HOME", word]);
        let json = "skills add V1 --claude --global --json";
        with(&test, &[("HOME", Some(home))], json).expect(1, &["HOME"]);
        for typed in ["skills status", "skills list", "doctor", "skills update"] {
            with(&test, &[("HOME", Some(home))], typed).expect_any(&[0, 1]);
            let typed = format!("{typed} --json");
            with(&test, &[("HOME", Some(home))], &typed).expect_any(&[0, 1]);
        }
    }
    // A project needs no HOME.
    assert_unchanged(&before, &picture(&test.root()));
    with(&test, &[("HOME", Some(OsStr::new("relative")))], "skills add V1 --claude").expect(0, &[]);
}

#[test]
fn has_no_home_at_all() {
    let test = Test::hostile();
    for home in [None, Some(OsStr::new(""))] {
        // The home of the user database is used instead; nothing is written to it here.
        let dry = "skills add V1 --claude --global --dry-run";
        with(&test, &[("HOME", home)], dry).expect_any(&[0, 1, 3]);
        with(&test, &[("HOME", home)], "skills status --json").expect_any(&[0, 1]);
    }
}

#[test]
fn has_a_home_that_is_not_utf8() {
    let test = Test::hostile();
    let home = test.root().join(OsStr::from_bytes(b"h\xffme"));
    fs::create_dir(&home).unwrap();
    let set = [("HOME", Some(home.as_os_str()))];
    for typed in [
        "skills add V1 --claude --codex --agents --global --link",
        "skills status --json",
        "skills list --json",
        "skills update --json",
        "skills add V2 --claude --codex --agents --global --json",
        "skills remove demo --global --json",
    ] {
        with(&test, &set, typed).expect(0, &[]);
    }
    assert!(!home.join(".claude/skills/demo").exists());
}

#[test]
fn moves_the_agents_folders() {
    for name in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"] {
        let agent = match name {
            "CODEX_HOME" => "codex",
            "CLAUDE_CONFIG_DIR" => "claude",
            _ => "opencode",
        };
        for value in [&b""[..], b"relative", b"/nowhere\n/x", b"~/x", b"..", b"\xff\xfe"] {
            let test = Test::hostile();
            let outside = test.untouchable();
            let set = [(name, Some(OsStr::from_bytes(value)))];
            for typed in [
                format!("skills add V1 --{agent} --global --dry-run --json"),
                "skills status --json".to_owned(),
                "doctor --json".to_owned(),
            ] {
                with(&test, &set, &typed).expect_any(&[0, 1, 3]);
            }
            assert_unchanged(&outside, &test.untouchable());
            assert!(list(&test.home).is_empty(), "{name}");
        }
    }
}

/// The target of a link between such folders contains these bytes, which the JSON journal cannot represent.
#[test]
fn moves_an_agents_folder_to_a_name_that_is_not_utf8() {
    let test = Test::hostile();
    let codex = test.root().join(OsStr::from_bytes(b"c\xffdex"));
    fs::create_dir(&codex).unwrap();
    let set = [("CODEX_HOME", Some(codex.as_os_str()))];
    for typed in [
        "skills add V1 --codex --claude --global --link --json",
        "skills add V1 --codex --global",
        "skills add V1 --claude --global --link",
    ] {
        with(&test, &set, typed).expect_any(&[0, 1]);
    }
    with(&test, &set, "skills status --json").expect_any(&[0, 1]);
    let area = codex.join(".kernels");
    assert!(!area.exists(), "{:?}", list(&area));
}

#[test]
fn has_a_current_folder_that_is_gone() {
    let test = Test::hostile();
    fs::create_dir(test.at("gone")).unwrap();
    for typed in [
        "skills add V1 --claude",
        "skills status --json",
        "skills remove demo",
        "skills update --json",
        "skills pack V1",
        "doctor",
    ] {
        let _ = fs::create_dir(test.at("gone"));
        let mut command = test.command_of("/bin/sh");
        command.args(["-c", "cd gone && rmdir ../gone && exec \"$0\" \"$@\"", program()]);
        Ran::of(command.args(test.words(typed))).expect(1, &[]);
    }
    Ran::of(test.command().args(["--version"])).expect(0, &["kernels"]);
}

#[test]
fn has_a_current_folder_with_an_odd_name() {
    for name in [&b"a\xffb"[..], b"with space", "😀".as_bytes(), b"a\nb", b"-x", b"%s", b"'\""] {
        let test = Test::hostile();
        let folder = test.outside().join(OsStr::from_bytes(name));
        fs::create_dir_all(folder.join(".git")).unwrap();
        for (typed, code) in [
            ("skills add V1 --claude --codex --link --json", 0),
            ("skills status --json", 1),
            ("skills diff --json", 0),
            ("doctor --json", 1),
            ("skills add V2 --claude --codex --json", 0),
            ("skills update", 1),
            ("skills remove demo --json", 0),
        ] {
            let mut command = test.command();
            command.current_dir(&folder).args(test.words(typed));
            let ran = Ran::of(&mut command);
            if code == 0 {
                ran.expect(0, &[]);
            }
        }
        let mut left = picture(&folder);
        left.retain(|path, _| !folder.join(path).is_dir());
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn has_a_worktree_whose_git_is_a_file() {
    let test = Test::hostile();
    fs::remove_dir(test.at(".git")).unwrap();
    test.write(".git", "gitdir: /elsewhere\n");
    fs::create_dir_all(test.at("a/b")).unwrap();
    let mut command = test.command();
    command.current_dir(test.at("a/b"));
    Ran::of(command.args(test.words("skills add V1 --claude"))).expect(0, &[]);
    assert!(test.holds_version(CLAUDE, "1"));
    fs::remove_file(test.at(".git")).unwrap();
    // A dangling link is not a repository.
    test.link("nowhere", ".git");
    test.is_unedited();
}

#[test]
fn has_very_long_paths() {
    let test = Test::hostile();
    let mut dest = test.at("dest");
    for n in 0..14 {
        dest.push(format!("{n}").repeat(120));
    }
    let dest = dest.to_str().unwrap();
    test.run(&format!("skills add V1 --dest {dest}")).expect_any(&[0, 1]);
    let longer = format!("{dest}/{}", "y/".repeat(2_000));
    let before = picture(&test.project);
    test.run(&format!("skills add V1 --dest {longer}")).expect_any(&[1, 3]);
    test.run(&format!("skills add V1 --dest {}", "z".repeat(300))).expect_any(&[1, 3]).names("zzz");
    test.run(&format!("skills add {} --claude", "z".repeat(5_000))).expect(1, &["zzz"]);
    assert_unchanged(&before, &picture(&test.project));
}
