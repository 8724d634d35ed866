//! A stdout that is closed, full, or not read.

use super::*;

/// The work is done although nobody reads the output.
fn is_done(place: &Place, redirect: &str) {
    for (typed, codes) in [
        ("skills add V1 --claude", &[0][..]),
        ("skills list", &[0, 1]),
        ("skills status --json", &[0, 1]),
        ("skills show V1", &[0, 1]),
        ("completions bash", &[0, 1]),
        ("--help", &[0, 1]),
        ("skills remove demo", &[0]),
    ] {
        let mut command = Command::new("/bin/sh");
        place.prepare(&mut command);
        let script = format!("\"$0\" \"$@\" {redirect}");
        command.args(["-c", &script, KERNELS]).args(place.words(typed));
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let ran = wait(child, &command);
        assert!(codes.contains(&ran.code), "{typed} {redirect}: {ran:#?}");
        assert!(!ran.err.contains("panicked"), "{typed} {redirect}: {ran:#?}");
        if typed.contains("add") {
            assert!(place.holds_version(CLAUDE, "1"));
        }
    }
    assert!(!place.at(CLAUDE).exists());
}

#[test]
fn is_closed() {
    is_done(&Place::new(), ">&-");
    is_done(&Place::new(), ">&- 2>&-");
    is_done(&Place::new(), "<&- >&- 2>&-");
}

#[test]
fn is_full() {
    if Path::new("/dev/full").exists() {
        is_done(&Place::new(), ">/dev/full");
        is_done(&Place::new(), ">/dev/full 2>/dev/full");
    }
}

#[test]
fn is_only_open_for_reading() {
    is_done(&Place::new(), "1</dev/null");
}

#[test]
fn is_a_pipe_that_nobody_reads() {
    let place = Place::new();
    for typed in [
        "skills list",
        "skills status --json",
        "skills validate --rules",
        "completions bash",
        "skills add V1 --claude",
        "--help",
    ] {
        let mut command = place.command();
        command.args(place.words(typed)).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        drop(child.stderr.take());
        let ran = wait(child, &command);
        assert!((0..=1).contains(&ran.code), "{typed}: {ran:#?}");
    }
    assert!(place.holds_version(CLAUDE, "1"));
}
