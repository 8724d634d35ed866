//! The destination holds something other than an install.

use super::*;

/// It is refused; with --force it is moved away unchanged, and a link's target is not touched.
fn is_protected(put: impl Fn(&Test, &Path)) {
    let test = Test::hostile();
    fs::create_dir_all(test.at(".claude/skills")).unwrap();
    put(&test, &test.at(CLAUDE));
    let outside = test.untouchable();
    let mine = picture(&test.at(CLAUDE));
    test.refuses("skills add V1 --claude", 3, &[CLAUDE]);
    test.refuses("skills add V1 --claude --dry-run", 3, &[CLAUDE]);
    test.refuses("skills remove demo --claude", 3, &[CLAUDE]);
    test.look();
    test.run("skills update").expect_any(&[0, 3]);
    assert_unchanged(&mine, &picture(&test.at(CLAUDE)));
    test.ok("skills add V1 --claude --force");
    assert!(test.holds_version(CLAUDE, "1"));
    let backup = test.backups().pop().expect("what was there is kept");
    assert_unchanged(&mine, &picture(&backup));
    assert_unchanged(&outside, &test.untouchable());
    test.assert_no_change_waits();
}

#[test]
fn is_a_link_to_a_folder_outside() {
    is_protected(|test, dest| symlink(test.outside().join("folder"), dest).unwrap());
}

#[test]
fn is_a_link_to_a_skill_outside() {
    is_protected(|test, dest| symlink(test.outside().join("v1/demo"), dest).unwrap());
}

#[test]
fn is_a_link_to_nothing() {
    is_protected(|_, dest| symlink("nowhere", dest).unwrap());
}

#[test]
fn is_a_link_to_itself() {
    is_protected(|_, dest| symlink("demo", dest).unwrap());
}

#[test]
fn is_a_link_to_a_file() {
    is_protected(|test, dest| symlink(test.outside().join("secret"), dest).unwrap());
}

#[test]
fn is_a_file() {
    is_protected(|_, dest| fs::write(dest, "mine\n").unwrap());
}

#[test]
fn is_a_pipe() {
    is_protected(|_, dest| pipe_at(dest));
}

#[test]
fn is_a_socket() {
    is_protected(|_, dest| drop(UnixListener::bind(dest).unwrap()));
}

#[test]
fn is_a_folder_without_a_receipt() {
    is_protected(|_, dest| write(&dest.join("SKILL.md"), "mine\n"));
}

#[test]
fn is_a_folder_with_a_pipe_a_link_and_odd_names() {
    is_protected(|test, dest| {
        write(&dest.join("a\nb"), "1");
        write(&dest.join(OsStr::from_bytes(b"\xff")), "2");
        symlink(test.outside().join("secret"), dest.join("link")).unwrap();
        pipe_at(&dest.join("pipe"));
    });
}

#[test]
fn has_odd_names_and_diff_shows_the_edits() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    test.write(&format!("{CLAUDE}/SKILL.md"), "edited by hand\n");
    write(&test.at(CLAUDE).join("a\u{1b}]0;b\nc"), "1\n");
    write(&test.at(CLAUDE).join(OsStr::from_bytes(b"\xff")), "2\n");
    symlink("/nowhere", test.at(CLAUDE).join("x\ty")).unwrap();
    for typed in ["skills diff", "skills diff --json"] {
        test.run(typed).expect(0, &["+edited by hand"]);
    }
    let ran = test.run("skills status");
    ran.expect(1, &["modified"]);
    let tall = ran.out.lines().count();
    assert_eq!(tall, 5, "one line each: {ran:#?}");
}

/// A file name that is not UTF-8 may look like one of the skill's when printed.
#[test]
fn holds_a_file_whose_name_only_prints_like_one_of_the_skill() {
    for byte in 0x80..=0xff_u8 {
        let test = Test::hostile();
        let source = test.outside().join("v1/demo");
        write(&source.join("a\u{fffd}.md"), "the skill's\n");
        test.ok("skills add V1 --claude");
        let mine = test.at(CLAUDE).join(OsStr::from_bytes(&[b'a', byte, b'.', b'm', b'd']));
        fs::write(&mine, "mine\n").unwrap();
        test.refuses("skills add V2 --claude", 3, &[CLAUDE]);
        assert_eq!(fs::read_to_string(mine).unwrap(), "mine\n");
    }
}
