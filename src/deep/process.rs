//! Runs a program with a time limit, and captures its output.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) out: String,
    pub(super) err: String,
    /// Killed at the time limit.
    pub(super) is_late: bool,
}

/// Runs a program and its children, for at most `seconds`.
pub(super) fn run(command: &mut Command, input: &[u8], seconds: u64) -> Result<Ran> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Its own process group, so that a compiler's children are killed with it.
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    limit(&child, seconds);
    let stdin = child.stdin.take();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (status, is_late, out, err) = thread::scope(|scope| {
        scope.spawn(move || {
            // A program may exit without reading its input.
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(input);
            }
        });
        let out = scope.spawn(move || read(out));
        let err = scope.spawn(move || read(err));
        let ended = wait(&mut child, Duration::from_secs(seconds));
        (
            ended.as_ref().map(|(status, _)| *status).ok(),
            ended.is_ok_and(|(_, is_late)| is_late),
            out.join().unwrap_or_default(),
            err.join().unwrap_or_default(),
        )
    });
    let status = status.with_context(|| format!("cannot wait for {name}"))?;
    Ok(Ran { status, out, err, is_late })
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait(child: &mut Child, most: Duration) -> std::io::Result<(ExitStatus, bool)> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        if begun.elapsed() > most {
            kill(child);
            return Ok((child.wait()?, true));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn kill(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
}

/// Limits CPU time. Child processes inherit it, so none runs forever if this program is interrupted.
fn limit(child: &Child, seconds: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let limit = Rlimit { current: Some(seconds), maximum: Some(seconds) };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = prlimit(Some(pid), Resource::Cpu, limit);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (child, seconds);
}
