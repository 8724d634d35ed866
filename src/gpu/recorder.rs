//! The harness's side of the recording process: starts it, sends calls, and limits its time and memory.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::driver::time_limit;
use super::recording::{Ask, Calls, Outcome, Ran, Reply, Run, Value};
use crate::worker::{Record, Request};

/// Resident bytes above which the process is killed.
const MEMORY: u64 = 16 << 30;
/// The signal that ends a process at a forbidden system call.
const SIGSYS: i32 = 31;
/// The longest line that is read as a reply.
const LONGEST_LINE: u64 = 256 << 20;

/// Why there is no recording, with a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordError {
    /// The process died or was stopped.
    Stopped(String),
    /// The process sent something that is not a valid reply.
    BadReport(String),
    /// The process could not start: no card, no such library.
    Refused(String),
}

/// A recording process for one library.
#[derive(Debug)]
pub(crate) struct Recorder {
    child: Child,
    /// Lines for its standard input; none once the process is being stopped.
    requests: Option<Sender<Vec<u8>>>,
    replies: Receiver<Result<String, String>>,
    errors: Arc<Mutex<Vec<u8>>>,
    /// The restrictions that are in force.
    pub(crate) confinement: Vec<String>,
    _scratch: TempDir,
}

impl Recorder {
    /// Starts a process for a library.
    pub(crate) fn start(ordinal: usize, library: &Path) -> Result<Self, RecordError> {
        match Self::started(ordinal, library, false) {
            // The driver may open files that the confinement does not allow: initialise it before. The candidate has
            // not run yet.
            Err(RecordError::Refused(_)) => Self::started(ordinal, library, true),
            answer => answer,
        }
    }

    fn started(ordinal: usize, library: &Path, driver_first: bool) -> Result<Self, RecordError> {
        let refused = |what: &str, error: io::Error| RecordError::Refused(format!("{what}: {error}"));
        let scratch = tempfile::Builder::new()
            .prefix("kernels-record-")
            .tempdir()
            .map_err(|error| refused("creating a scratch folder", error))?;
        let (library, folder) = (library.to_path_buf(), scratch.path().to_path_buf());
        let request = Request::Record(Record { ordinal, library, scratch: folder, driver_first });
        let mut child = request
            .command()
            .and_then(|command| spawn(confined(command, scratch.path())))
            .map_err(|error| refused("starting the recording process", error))?;
        let mut recorder = Self {
            replies: lines_of(child.stdout.take()),
            errors: beginning_of(child.stderr.take()),
            requests: Some(lines_for(child.stdin.take())),
            child,
            confinement: Vec::new(),
            _scratch: scratch,
        };
        match recorder.receive()? {
            Reply::Ready { confinement } => {
                recorder.confinement = confinement;
                Ok(recorder)
            }
            Reply::Refused { why } => Err(RecordError::Refused(why)),
            _ => Err(RecordError::BadReport("a result before any was requested".to_owned())),
        }
    }

    /// Calls a launcher once for each list of arguments. `error` names the function that returns messages for its error
    /// codes.
    pub(crate) fn record(
        &mut self,
        launcher: &str,
        error: Option<&str>,
        calls: Vec<Vec<Value>>,
    ) -> Result<Vec<Outcome>, RecordError> {
        let wanted = calls.len();
        let request =
            Calls { nonce: fresh_number(), launcher: launcher.to_owned(), error: error.map(str::to_owned), calls };
        let number = request.nonce;
        self.send(&Ask::Record(request))?;
        match self.receive()? {
            Reply::Recorded { nonce, outcomes } if nonce == number && outcomes.len() == wanted => Ok(outcomes),
            Reply::Recorded { nonce, .. } if nonce != number => {
                Err(RecordError::BadReport("a reply to another request".to_owned()))
            }
            _ => Err(RecordError::BadReport("not one outcome for each call".to_owned())),
        }
    }

    /// Calls a launcher once outside of capture, in that process, on a slot with this content, and returns digests of
    /// the parts of the slot afterwards. Pointers among the arguments are offsets in the slot.
    pub(crate) fn run(
        &mut self,
        launcher: &str,
        values: Vec<Value>,
        content: &[u8],
        parts: Vec<Range<usize>>,
    ) -> Result<Ran, RecordError> {
        let refused =
            |error: io::Error| RecordError::Refused(format!("writing a slot for the recording process: {error}"));
        // Not in the scratch folder, where the process could have put a link in its place.
        let mut file = tempfile::NamedTempFile::with_prefix("kernels-slot-").map_err(refused)?;
        file.write_all(content).map_err(refused)?;
        let (nonce, wanted) = (fresh_number(), parts.len());
        let content = file.path().to_path_buf();
        self.send(&Ask::Run(Run { nonce, launcher: launcher.to_owned(), values, content, parts }))?;
        match self.receive()? {
            Reply::Ran { nonce: number, ran } if number == nonce => match ran {
                Ran::Left(parts) if parts.len() != wanted => {
                    Err(RecordError::BadReport("not one digest for each part".to_owned()))
                }
                ran => Ok(ran),
            },
            _ => Err(RecordError::BadReport("a reply to another request".to_owned())),
        }
    }

    fn send(&mut self, what: &Ask) -> Result<(), RecordError> {
        if let Ok(early) = self.replies.try_recv() {
            return Err(RecordError::BadReport(format!(
                "a line that nobody requested: {}",
                beginning(&early.unwrap_or_else(|why| why))
            )));
        }
        let mut line = serde_json::to_vec(what).map_err(|error| RecordError::Refused(error.to_string()))?;
        line.push(b'\n');
        let sent = match &mut self.requests {
            Some(requests) => requests.send(line),
            None => return Err(RecordError::Stopped("it had ended before".to_owned())),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(_) => Err(RecordError::Stopped(self.how_it_ended())),
        }
    }

    fn receive(&mut self) -> Result<Reply, RecordError> {
        let start = Instant::now();
        loop {
            match self.replies.recv_timeout(Duration::from_millis(50)) {
                Ok(Ok(line)) => {
                    return serde_json::from_str(&line)
                        .map_err(|_| RecordError::BadReport(format!("not a reply: {}", beginning(&line))));
                }
                Ok(Err(why)) => return Err(RecordError::BadReport(why)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RecordError::Stopped(self.how_it_ended()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if start.elapsed() > time_limit() {
                self.stop();
                return Err(RecordError::Stopped(format!(
                    "it was stopped: no answer after {} s",
                    time_limit().as_secs()
                )));
            }
            if resident(self.child.id()) > MEMORY {
                self.stop();
                return Err(RecordError::Stopped(format!(
                    "it was stopped: it used more than {} GiB of memory",
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

    /// How the process ended, with the beginning of its standard error.
    fn how_it_ended(&mut self) -> String {
        self.requests = None;
        // It has closed its standard output; if it does not exit, it is killed.
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
            None => "it closed its output and was stopped".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (_, Some(SIGSYS)) => {
                    "it was stopped at a forbidden system call (network, another program or process, the machine's \
                     settings)"
                        .to_owned()
                }
                (_, Some(signal)) => format!("it died of signal {signal}"),
                (Some(code), _) => format!("it ended by itself with exit code {code}"),
                _ => "it ended".to_owned(),
            },
        };
        let said = self.errors.lock().map(|kept| String::from_utf8_lossy(&kept).trim().to_owned()).unwrap_or_default();
        if said.is_empty() { how } else { format!("{how}; it said: {}", beginning(&said)) }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sets the process's pipes, folders and environment: what the driver needs, and nothing else of this process.
fn confined(mut command: Command, scratch: &Path) -> Command {
    command.current_dir(scratch).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in ["LD_LIBRARY_PATH", "PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
        .env("HOME", scratch)
        .env("TMPDIR", scratch)
        // Read-only there; avoids a second compilation of PTX that this process has had compiled.
        .env("CUDA_CACHE_PATH", compute_cache())
        .env("CUDA_MODULE_LOADING", "LAZY");
    command
}

/// Starts a process on a thread that lives as long as this process: it dies with the thread that started it.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static STARTER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
        let (orders, to_start) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in to_start {
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (reply, started) = channel();
    let _ = STARTER.lock().unwrap_or_else(PoisonError::into_inner).send((command, reply));
    started.recv().map_err(io::Error::other)?
}

/// Writes lines to the process's standard input, on a thread: if the process does not read, only that thread blocks,
/// and the process is stopped because it does not answer.
fn lines_for(input: Option<ChildStdin>) -> Sender<Vec<u8>> {
    let (requests, lines) = channel::<Vec<u8>>();
    std::thread::spawn(move || {
        if let Some(mut input) = input { lines.iter().try_for_each(|line| input.write_all(&line)) } else { Ok(()) }
    });
    requests
}

/// The lines of the process's output, read on a thread.
fn lines_of(output: Option<ChildStdout>) -> Receiver<Result<String, String>> {
    let (send, replies) = channel();
    let Some(output) = output else { return replies };
    std::thread::spawn(move || {
        let mut lines = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            match (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    let text = String::from_utf8(line).map_err(|_| "bytes, not text".to_owned());
                    if send.send(text).is_err() {
                        break;
                    }
                }
            }
        }
    });
    replies
}

/// The beginning of the process's standard error, read on a thread to its end, so that the process never blocks on it.
fn beginning_of(errors: Option<ChildStderr>) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let Some(mut errors) = errors else {
        return kept;
    };
    let into = Arc::clone(&kept);
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(length @ 1..) = errors.read(&mut chunk) {
            if let Ok(mut into) = into.lock() {
                let room = 8192_usize.saturating_sub(into.len());
                into.extend_from_slice(&chunk[..length.min(room)]);
            }
        }
    });
    kept
}

/// The driver's cache of compiled PTX.
fn compute_cache() -> std::path::PathBuf {
    std::env::var_os("CUDA_CACHE_PATH")
        .map_or_else(|| std::env::home_dir().unwrap_or_default().join(".nv/ComputeCache"), Into::into)
}

/// A number that a candidate cannot predict.
fn fresh_number() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
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
