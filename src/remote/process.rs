//! Waiting for a program that writes what somebody unknown sends: it is ended at the limits of time and size.

use std::io::{self, Read};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use walkdir::WalkDir;

use super::{patience, too_slow};

/// How often the size is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// What is kept of the program's messages.
const MESSAGES: u64 = 64 * 1024;
/// How long a program that was told to end may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Waits until the child has ended and returns what it said on stderr, as an error if it failed.
pub(super) fn wait(mut child: Child, folder: &Path, most: u64) -> Result<Result<(), String>> {
    let (send, ended) = channel();
    let stderr = child.stderr.take();
    thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.by_ref().take(MESSAGES).read_to_end(&mut said);
            let _ = io::copy(&mut stderr, &mut io::sink());
        }
        let _ = send.send(String::from_utf8_lossy(&said).into_owned());
    });
    let start = Instant::now();
    let said = loop {
        match ended.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if start.elapsed() > patience() => {
                end(&mut child);
                return too_slow();
            }
            Err(RecvTimeoutError::Timeout) if size(folder) > most => {
                end(&mut child);
                bail!("has more than {} MB; clone it yourself and name the skill's folder", most / 1_000_000);
            }
            Err(RecvTimeoutError::Timeout) => match child.try_wait()? {
                // A program that ssh leaves in the background keeps stderr open.
                Some(status) if status.success() => break String::new(),
                // What was said of a failure may be a moment behind it.
                Some(_) => break ended.recv_timeout(GOODBYE).unwrap_or_default(),
                None => {}
            },
            said => break said.unwrap_or_default(),
        }
    };
    Ok(if child.wait()?.success() { Ok(()) } else { Err(said) })
}

fn size(folder: &Path) -> u64 {
    let files = WalkDir::new(folder).into_iter().flatten().filter_map(|entry| entry.metadata().ok());
    files.filter(std::fs::Metadata::is_file).map(|meta| meta.len()).sum()
}

/// Ends a program and what it started: git ends its own when it is asked to end, and not when it is killed.
fn end(child: &mut Child) {
    let asked = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = asked.map(|id| kill_process(id, Signal::TERM));
    let start = Instant::now();
    while start.elapsed() < GOODBYE && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(LOOK / 5);
    }
    let _ = child.kill().and_then(|()| child.wait());
}
