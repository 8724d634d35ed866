//! A command line of the user's, run by `sh` with the user's rights and for a limited time.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use super::supervise;
use crate::base::signals;

/// How long what it printed is waited for after its end: a process that it left may hold the pipe open.
const BRIEF: Duration = Duration::from_secs(2);

/// The groups of the commands under way that have their own.
static APART: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Ends the process, as a signal does, with the commands that have groups of their own: an interrupt of the terminal does not
/// reach these, and nothing would limit them then.
pub(crate) fn end_with_signals() -> Result<()> {
    let mut signals = signals::that_end()?;
    thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        // Held until the process ends, so that no other one begins.
        let groups = locked(&APART);
        for group in groups.iter().filter_map(|group| Pid::from_raw(*group)) {
            supervise::stop_and_end_below(group.as_raw_nonzero().get().cast_unsigned());
            let _ = kill_process_group(group, Signal::KILL);
        }
        std::process::exit(128 + signal);
    });
    Ok(())
}

/// What to run.
pub(crate) struct Shell<'a> {
    pub(crate) line: &'a str,
    /// None: the current folder.
    pub(crate) folder: Option<&'a Path>,
    pub(crate) input: &'a [u8],
    pub(crate) limit: Duration,
    /// The most bytes of its output that are kept.
    pub(crate) most: usize,
    /// Whether it is ended when it prints more.
    pub(crate) ends_when_full: bool,
    /// Whether it has a process group of its own, which ends with it. An interrupt of the terminal does not reach that.
    pub(crate) apart: bool,
    pub(crate) stderr: Stdio,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Said {
    /// None where it did not end in time.
    pub(crate) status: Option<ExitStatus>,
    /// The beginning of what it printed.
    pub(crate) text: String,
    pub(crate) is_full: bool,
}

impl Shell<'_> {
    pub(crate) fn run(self) -> Result<Said> {
        let mut command = Command::new("sh");
        command.args(["-c", self.line]).stdin(given(self.input)?).stdout(Stdio::piped()).stderr(self.stderr);
        command.current_dir(self.folder.unwrap_or(Path::new(".")));
        if self.apart {
            command.process_group(0);
        }
        let mut child = start(&mut command, self.apart)?;
        let kept = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&kept);
        let (pipe, most) = (child.stdout.take(), self.most);
        let reader = thread::spawn(move || keep(pipe, &shared, most));
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(2));
        let status = loop {
            let status = child.try_wait()?;
            let is_full = self.ends_when_full && locked(&kept).len() > most;
            if status.is_some() || is_full || begun.elapsed() > self.limit {
                break status;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        };
        end(&mut child, status.is_none(), self.apart);
        let ended = Instant::now();
        while !reader.is_finished() && ended.elapsed() < BRIEF {
            thread::sleep(Duration::from_millis(2));
        }
        let mut kept = locked(&kept);
        let is_full = kept.len() > most;
        kept.truncate(most);
        Ok(Said { status, text: String::from_utf8_lossy(&kept).into_owned(), is_full })
    }
}

fn start(command: &mut Command, apart: bool) -> Result<Child> {
    let mut groups = locked(&APART);
    let child = command.spawn().context("cannot start sh")?;
    if apart {
        groups.extend(i32::try_from(child.id()));
    }
    Ok(child)
}

/// A file and no pipe: a command may end before it has read everything.
fn given(input: &[u8]) -> Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(input).and_then(|()| file.rewind())?;
    Ok(file)
}

/// Keeps the first bytes, and one more if there are more. What nobody reads would block the command.
fn keep(pipe: Option<impl Read>, kept: &Mutex<Vec<u8>>, most: usize) {
    let (Some(mut pipe), mut part) = (pipe, vec![0; 64 << 10]) else { return };
    while let Ok(count @ 1..) = pipe.read(&mut part) {
        let mut kept = locked(kept);
        let room = (most + 1).saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&part[..room]);
    }
}

/// Ends what is left of it.
fn end(child: &mut Child, runs: bool, apart: bool) {
    if runs {
        supervise::stop_and_end_below(child.id());
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw).filter(|_| apart) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    // The number may be another one's from here on.
    let mut groups = locked(&APART);
    let _ = child.wait();
    groups.retain(|group| i32::try_from(child.id()) != Ok(*group));
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn run(line: &str, apart: bool, seconds: u64) -> (Said, Duration) {
        let begun = Instant::now();
        let shell = Shell {
            line,
            folder: None,
            input: b"question\n",
            limit: Duration::from_secs(seconds),
            most: 100,
            ends_when_full: true,
            apart,
            stderr: Stdio::null(),
        };
        (shell.run().unwrap(), begun.elapsed())
    }

    #[test]
    fn a_command_is_over_when_it_ends_or_its_time_does() {
        let (said, _) = run("cat", false, 60);
        assert_eq!((said.text.as_str(), said.status.map(|status| status.success())), ("question\n", Some(true)));
        // What it left holds its output open.
        let (said, took) = run("echo first; sleep 20 & exit 0", false, 60);
        assert!(said.text == "first\n" && took < Duration::from_secs(15), "{said:?} {took:?}");
        for apart in [false, true] {
            let (said, took) = run("echo first; sleep 20; echo second", apart, 1);
            assert!(said.status.is_none() && said.text == "first\n", "{said:?}");
            assert!(took < Duration::from_secs(15), "{took:?}");
        }
        let (said, took) = run("yes", false, 60);
        assert!(said.is_full && said.text.len() == 100 && took < Duration::from_secs(30), "{said:?} {took:?}");
    }
}
