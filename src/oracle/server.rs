//! Python processes that run references. Importing torch takes seconds, so that idle processes are kept and reused.

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// The program of the Python process.
const DRIVER: &str = include_str!("driver.py");

/// The idle processes: at most as many as were ever in use at the same time.
static IDLE: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// Sends a request to an idle process, or to a new one.
///
/// # Errors
/// Python or torch is missing, the process died, or the reference raised.
pub(super) fn call(request: &serde_json::Value) -> Result<()> {
    let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = idle().pop();
    let mut server = match kept {
        Some(server) => server,
        None => Server::start()?,
    };
    let outcome = server.ask(request);
    // A process that died is not kept.
    if matches!(server.child.try_wait(), Ok(None)) {
        idle().push(server);
    }
    outcome
}

struct Server {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    errors: std::fs::File,
}

/// The reply to a request.
#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    error: String,
}

impl Server {
    /// Starts the Python of `KERNELS_PYTHON`, else `python3` in PATH, without access to the card. It ends when its standard
    /// input is closed, at the latest with this process.
    fn start() -> Result<Self> {
        let python = std::env::var_os("KERNELS_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
        let errors = tempfile::tempfile()?;
        let mut child = Command::new(&python)
            .args(["-c", DRIVER])
            .env("CUDA_VISIBLE_DEVICES", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()
            .with_context(|| {
                format!(
                    "starting {} for the Python reference; set KERNELS_PYTHON to a Python with torch",
                    python.display()
                )
            })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the Python process of the reference has no pipes");
        };
        Ok(Self { child, requests, answers: BufReader::new(answers), errors })
    }

    fn ask(&mut self, request: &serde_json::Value) -> Result<()> {
        let sent = writeln!(self.requests, "{request}").and_then(|()| self.requests.flush());
        let mut line = String::new();
        if sent.is_err() || self.answers.read_line(&mut line).unwrap_or(0) == 0 {
            let status = self.child.wait()?;
            let mut said = String::new();
            self.errors.rewind()?;
            self.errors.read_to_string(&mut said)?;
            bail!(
                "the Python reference died ({status}); KERNELS_PYTHON must name a Python with torch:\n{}",
                said.trim_end()
            );
        }
        let answer: Answer = serde_json::from_str(&line).context("reading the Python reference's answer")?;
        ensure!(answer.ok, "the Python reference failed:\n{}", answer.error.trim_end());
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
