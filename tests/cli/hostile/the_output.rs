//! A stdout that is closed, full, or not read.

use super::*;

/// The work is done although nobody reads the output.
fn is_done(test: &Test, redirect: &str) {
    for (typed, codes) in [
        ("skills add V1 --claude", &[0][..]),
        ("skills list", &[0, 1]),
        ("skills status --json", &[0, 1]),
        ("skills show V1", &[0, 1]),
        ("completions bash", &[0, 1]),
        ("--help", &[0, 1]),
        ("skills remove demo", &[0]),
    ] {
        let mut command = test.command_of("/bin/sh");
        let script = format!("\"$0\" \"$@\" {redirect}");
        command.args(["-c", &script, program()]).args(test.words(typed));
        let ran = Ran::of(&mut command);
        assert!(codes.contains(&ran.code), "{typed} {redirect}: {ran:#?}");
        if typed.contains("add") {
            assert!(test.holds_version(CLAUDE, "1"));
        }
    }
    assert!(!test.at(CLAUDE).exists());
}

#[test]
fn is_closed() {
    is_done(&Test::hostile(), ">&-");
    is_done(&Test::hostile(), ">&- 2>&-");
    is_done(&Test::hostile(), "<&- >&- 2>&-");
}

#[test]
fn is_full() {
    if Path::new("/dev/full").exists() {
        is_done(&Test::hostile(), ">/dev/full");
        is_done(&Test::hostile(), ">/dev/full 2>/dev/full");
    }
}

#[test]
fn is_only_open_for_reading() {
    is_done(&Test::hostile(), "1</dev/null");
}

#[test]
fn is_a_pipe_that_nobody_reads() {
    let test = Test::hostile();
    for typed in [
        "skills list",
        "skills status --json",
        "skills validate --rules",
        "completions bash",
        "skills add V1 --claude",
        "--help",
    ] {
        let mut command = test.command();
        command.args(test.words(typed)).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        drop(child.stderr.take());
        let status = child.wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 1)), "{typed}: {status}");
    }
    assert!(test.holds_version(CLAUDE, "1"));
}
