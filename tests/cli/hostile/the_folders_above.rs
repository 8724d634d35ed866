//! `.claude` or `.claude/skills` that is a file or a link, and a `.git` that somebody else made.

use super::*;

#[test]
fn are_a_file() {
    for path in [".claude", ".claude/skills"] {
        let test = Test::hostile();
        test.write(path, "a file\n");
        test.refuses("skills add V1 --claude", 1, &[path]);
        test.look();
    }
}

#[test]
fn are_a_link_to_nothing() {
    for path in [".claude", ".claude/skills"] {
        let test = Test::hostile();
        test.link("nowhere", path);
        test.refuses("skills add V1 --claude", 1, &[path]);
        test.look();
    }
}

#[test]
fn are_a_link_to_themselves() {
    let test = Test::hostile();
    test.link("skills", ".claude/skills");
    test.refuses("skills add V1 --claude", 1, &[".claude/skills"]);
    test.look();
}

#[test]
fn are_a_link_inside_the_project() {
    for (path, to, real) in
        [(".claude", "shared", "shared/skills/demo"), (".claude/skills", "../shared", "shared/demo")]
    {
        let test = Test::hostile();
        fs::create_dir(test.at("shared")).unwrap();
        test.link(to, path);
        test.ok("skills add V1 --claude");
        assert!(test.holds_version(real, "1"));
        test.is_unedited();
        test.ok("skills remove demo");
        assert!(test.at(path).is_symlink());
        assert!(!test.at(real).exists());
    }
}

#[test]
fn are_a_link_that_leaves_the_project() {
    for (path, to) in [(".claude", "../outside/empty"), (".claude/skills", "../../outside/empty")] {
        let test = Test::hostile();
        test.link(to, path);
        test.refuses("skills add V1 --claude", 3, &[path, "leaves the project"]);
        test.refuses("skills add V1 --claude --force", 3, &[path]);
        test.refuses("skills remove demo --claude", 3, &[path]);
        test.look();
        let before = picture(&test.outside());
        test.run("skills update").expect_any(&[0, 1, 3]);
        assert_unchanged(&before, &test.untouchable());
    }
}

/// An install outside the project, reached through a link in it, does not belong to the project.
#[test]
fn are_a_link_to_installs_outside() {
    let test = Test::hostile();
    test.run("skills add V1 --dest ../outside/empty").expect(0, &[]);
    fs::remove_file(test.outside().join("empty/demo/SKILL.md")).unwrap();
    test.link("../../outside/empty", ".claude/skills");
    let before = test.untouchable();
    test.run("skills update").expect_any(&[0, 1, 3]);
    test.run("skills remove demo").expect_any(&[1, 3]);
    test.run("skills remove demo --force").expect_any(&[1, 3]);
    assert_unchanged(&before, &test.untouchable());
}

/// In /tmp anybody can make a `.git`, and a skills.toml beside it.
#[test]
fn have_a_repository_of_a_stranger() {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can give a folder to somebody else");
        return;
    }
    let test = Test::hostile();
    let (all, mine) = (test.root().join("tmp"), test.root().join("tmp/mine"));
    fs::create_dir_all(&mine).unwrap();
    fs::create_dir(all.join(".git")).unwrap();
    write(&all.join("skills/evil/SKILL.md"), skill_md("evil", "1"));
    write(&all.join("skills.toml"), "agents = [\"claude\"]\n[skills.evil]\nsource = \"skills/evil\"\n");
    test.run_in(&mine, "skills sync --check").expect(1, &["evil"]);
    chown(all.join(".git"), Some(NOBODY), Some(NOBODY)).unwrap();
    // A checkout that another user's program made is no trap: nobody else can write beside it.
    test.run_in(&mine, "skills sync --check").expect(1, &["evil"]);
    fs::set_permissions(&all, Permissions::from_mode(0o1777)).unwrap();
    let before = picture(&all);
    test.run_in(&mine, "skills sync").expect(1, &["there is no"]);
    assert_unchanged(&before, &picture(&all));
}
