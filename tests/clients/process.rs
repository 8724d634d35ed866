//! Running a child to its end or to a time limit without losing its output.

use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// A child that ended by itself.
pub(crate) struct Finished {
    pub(crate) command: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Panics with everything known about the run unless it ended with `code`.
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "unexpected exit code\n{self}");
        self
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, code, stdout, stderr } = self;
        write!(f, "command: {command}\nexit code: {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// Runs `command` without standard input. A child that outlives `limit` is killed with everything
/// that it started, and the test fails with what it had printed.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Finished {
    let shown = format!("{command:?}");
    let started = Instant::now();
    // A separate process group, so that grandchildren (Claude starts some) can be killed with it.
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {shown}: {error}"));
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());

    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if started.elapsed() > limit => break None,
            Ok(None) => thread::sleep(Duration::from_millis(2)),
            Err(error) => panic!("cannot wait for {shown}: {error}"),
        }
    };
    // Also after a normal end: a grandchild that holds the pipes open would block the readers.
    kill_group(&mut child);
    let finished = Finished {
        command: shown,
        code: ended.and_then(|status| status.code()),
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    };
    assert!(ended.is_some(), "killed after {limit:?}\n{finished}");
    finished
}

/// Starts `command` and kills it, with everything that it started, after `delay`.
pub(crate) fn run_and_kill(command: &mut Command, delay: Duration) {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {shown}: {error}"));
    thread::sleep(delay);
    kill_group(&mut child);
}

fn kill_group(child: &mut Child) {
    // An error here means that the group has already ended, which is fine.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
