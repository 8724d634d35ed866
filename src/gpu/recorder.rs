//! The parent's end: a locked-down child that records, watched.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::child::Setup;
use super::driver::patience;
use super::recording::{Outcome, Reply, Request, Value};

/// Resident bytes at which the child is stopped.
const MEMORY: u64 = 16 << 30;
/// Bytes that a report of one launch may have at most; a longer line is no report.
const LONGEST_LINE: u64 = 256 << 20;

/// Why there is no recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The child died or was stopped: the words for it.
    Stopped(String),
    /// The child said something that is no report.
    BadReport(String),
    /// The child could not begin: no card, no such library.
    Refused(String),
}

/// A recording process for one library.
#[derive(Debug)]
pub struct Recorder {
    child: Child,
    requests: Option<ChildStdin>,
    replies: Receiver<Result<String, String>>,
    errors: Arc<Mutex<Vec<u8>>>,
    /// What holds the child.
    pub confinement: Vec<String>,
    scratch: TempDir,
}

impl Recorder {
    /// Starts a child for a library.
    pub fn start(ordinal: usize, library: &Path) -> Result<Self, Answer> {
        let refused =
            |what: &str, error: std::io::Error| Answer::Refused(format!("{what}: {error}"));
        let scratch = tempfile::Builder::new()
            .prefix("kernels-record-")
            .tempdir()
            .map_err(|error| refused("making a scratch folder", error))?;
        let program =
            std::env::current_exe().map_err(|error| refused("finding this program", error))?;
        let mut command = Command::new(program);
        command
            .arg("__record")
            .current_dir(scratch.path())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // What the driver needs to be found; nothing else of ours is the candidate's business.
        for name in [
            "LD_LIBRARY_PATH",
            "PATH",
            "CUDA_VISIBLE_DEVICES",
            "CUDA_DEVICE_ORDER",
            "NVIDIA_VISIBLE_DEVICES",
        ] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("HOME", scratch.path())
            .env("TMPDIR", scratch.path())
            // What this process had the driver compile, the child need not have compiled again; it can only read there.
            .env("CUDA_CACHE_PATH", compute_cache())
            .env("CUDA_MODULE_LOADING", "LAZY");
        let mut child = command
            .spawn()
            .map_err(|error| refused("starting the recording process", error))?;
        let (send, replies) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(output);
                loop {
                    let mut line = Vec::new();
                    match (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                        Ok(0) | Err(_) => break,
                        Ok(_) => {
                            let text = String::from_utf8(line)
                                .map_err(|_| "bytes that are no text".to_owned());
                            if send.send(text).is_err() {
                                break;
                            }
                        }
                    }
                }
            });
        }
        let errors = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut output) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            std::thread::spawn(move || {
                let mut chunk = [0; 4096];
                while let Ok(length @ 1..) = output.read(&mut chunk) {
                    if let Ok(mut kept) = errors.lock() {
                        // The first words are the cause; the rest is drained so that the child never waits.
                        let room = 8192_usize.saturating_sub(kept.len());
                        kept.extend_from_slice(&chunk[..length.min(room)]);
                    }
                }
            });
        }
        let requests = child.stdin.take();
        let mut recorder = Self {
            child,
            requests,
            replies,
            errors,
            confinement: Vec::new(),
            scratch,
        };
        let setup = Setup {
            ordinal,
            library: library.to_path_buf(),
            scratch: recorder.scratch.path().to_path_buf(),
        };
        recorder.send(&setup)?;
        match recorder.receive()? {
            Reply::Ready { confinement } => {
                recorder.confinement = confinement;
                Ok(recorder)
            }
            Reply::Refused { why } => Err(Answer::Refused(why)),
            Reply::Recorded { .. } => Err(Answer::BadReport(
                "a recording before any was asked for".to_owned(),
            )),
        }
    }

    /// Calls a launcher once for each list of arguments.
    pub fn record(
        &mut self,
        launcher: &str,
        calls: Vec<Vec<Value>>,
    ) -> Result<Vec<Outcome>, Answer> {
        let wanted = calls.len();
        let request = Request {
            nonce: fresh_number(),
            launcher: launcher.to_owned(),
            calls,
        };
        if let Ok(early) = self.replies.try_recv() {
            return Err(Answer::BadReport(format!(
                "it spoke without being asked: {}",
                beginning(&early.unwrap_or_else(|why| why))
            )));
        }
        self.send(&request)?;
        match self.receive()? {
            Reply::Recorded { nonce, outcomes }
                if nonce == request.nonce && outcomes.len() == wanted =>
            {
                Ok(outcomes)
            }
            Reply::Recorded { nonce, .. } if nonce != request.nonce => Err(Answer::BadReport(
                "a report that answers another request".to_owned(),
            )),
            _ => Err(Answer::BadReport(
                "not one outcome for each call".to_owned(),
            )),
        }
    }

    fn send(&mut self, what: &impl serde::Serialize) -> Result<(), Answer> {
        let mut line =
            serde_json::to_vec(what).map_err(|error| Answer::Refused(error.to_string()))?;
        line.push(b'\n');
        let sent = match &mut self.requests {
            Some(requests) => requests.write_all(&line),
            None => return Err(Answer::Stopped("it was stopped before".to_owned())),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(_) => Err(Answer::Stopped(self.last_words())),
        }
    }

    fn receive(&mut self) -> Result<Reply, Answer> {
        let start = Instant::now();
        loop {
            match self.replies.recv_timeout(Duration::from_millis(50)) {
                Ok(Ok(line)) => {
                    return serde_json::from_str(&line).map_err(|_| {
                        Answer::BadReport(format!("no report: {}", beginning(&line)))
                    });
                }
                Ok(Err(why)) => return Err(Answer::BadReport(why)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Answer::Stopped(self.last_words()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if start.elapsed() > patience() {
                self.stop();
                return Err(Answer::Stopped(format!(
                    "it was stopped: no answer after {} s",
                    patience().as_secs()
                )));
            }
            if resident(self.child.id()) > MEMORY {
                self.stop();
                return Err(Answer::Stopped(format!(
                    "it was stopped: it held more than {} GiB of memory",
                    MEMORY >> 30
                )));
            }
        }
    }

    fn stop(&mut self) {
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How the child ended, with the first of what it said.
    fn last_words(&mut self) -> String {
        self.requests = None;
        // It has closed its report; if it lingers all the same, it is ended.
        let deadline = Instant::now() + Duration::from_secs(2);
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => {
                    self.stop();
                    break None;
                }
            }
        };
        let how = match status {
            None => "it closed its report and was stopped".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (_, Some(31)) => {
                    "it was stopped at a forbidden system call (network, another program or process, the machine's \
                     settings)"
                        .to_owned()
                }
                (_, Some(signal)) => format!("it died of signal {signal}"),
                (Some(code), _) => format!("it ended by itself with exit code {code}"),
                _ => "it ended".to_owned(),
            },
        };
        let said = self
            .errors
            .lock()
            .map(|kept| String::from_utf8_lossy(&kept).trim().to_owned())
            .unwrap_or_default();
        if said.is_empty() {
            how
        } else {
            format!("{how}; it said: {}", beginning(&said))
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where the driver keeps what it compiled.
fn compute_cache() -> std::path::PathBuf {
    std::env::var_os("CUDA_CACHE_PATH").map_or_else(
        || {
            std::env::home_dir()
                .unwrap_or_default()
                .join(".nv/ComputeCache")
        },
        Into::into,
    )
}

/// A number that a candidate cannot know beforehand.
fn fresh_number() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

fn beginning(text: &str) -> String {
    let mut short: String = text.trim_end().chars().take(300).collect();
    if short.len() < text.trim_end().len() {
        short.push('…');
    }
    short
}

/// Resident bytes of a process; 0 where they cannot be read.
fn resident(process: u32) -> u64 {
    let read = || -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    read().unwrap_or(0) * 1024
}
