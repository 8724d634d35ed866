//! The Python process of `--against`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use super::Interpreter;
use crate::worker::{Confined, Request};

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("python/", $path)))),*]
    };
}

/// The driver and its package, file by file, without what Python caches beside them.
const FILES: &[(&str, &str)] = files![
    "describe.py",
    "driver.py",
    "peers/__init__.py",
    "peers/candidate.py",
    "peers/case.py",
    "peers/copies.py",
    "peers/hub.py",
    "peers/library.py",
    "peers/operations/__init__.py",
    "peers/operations/adaln.py",
    "peers/operations/adapter.py",
    "peers/operations/attention.py",
    "peers/operations/basics.py",
    "peers/operations/gated.py",
    "peers/operations/norms.py",
    "peers/operations/own.py",
    "peers/operations/rope.py",
    "peers/operations/rope3d.py",
    "peers/operations/softmax.py",
    "peers/peer_modules.py",
    "peers/row.py",
    "peers/tensors.py",
    "peers/through_inductor.py",
    "published.py",
];

/// How many bytes of its output are shown when it dies.
const SHOWN: usize = 3000;

/// Of a line of its output.
const LONGEST: u64 = 1 << 24;

/// What a stranger's code is not to see, and where it keeps its caches.
const SECRETS: &str = "HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_OIDC_ID_TOKEN ACTIONS_ID_TOKEN_REQUEST_TOKEN";
const CACHES: &str = "TMPDIR HF_HOME XDG_CACHE_HOME TRITON_CACHE_DIR CUDA_CACHE_PATH";

/// The running process.
#[derive(Debug)]
pub(super) struct Driver {
    name: &'static str,
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
    printed: File,
    _folder: TempDir,
}

impl Driver {
    /// Starts it on a request. The Hub library is told to stay offline unless `online`.
    pub(super) fn start(python: &Interpreter, request: &Value, online: bool) -> Result<Self> {
        let folder = sources()?;
        let mut command = Command::new(&python.path);
        command.arg(folder.path().join("driver.py"));
        if !online {
            command.env("HF_HUB_OFFLINE", "1");
        }
        let mut driver = Self::spawn("the driver of --against", command, folder)?;
        driver.ask(request);
        Ok(driver)
    }

    /// Starts one that runs a stranger's code: without network, and writing to `scratch` alone.
    pub(super) fn confined(python: &Interpreter, script: &'static str, scratch: &Path) -> Result<Self> {
        let folder = sources()?;
        let arguments = vec![folder.path().join(script)];
        let confined = Confined { program: python.path.clone(), arguments, scratch: scratch.to_owned() };
        let mut command = Request::Confined(confined).command()?;
        command.envs(CACHES.split(' ').map(|name| (name, scratch))).env("HF_HUB_OFFLINE", "1");
        for name in SECRETS.split(' ') {
            command.env_remove(name);
        }
        Self::spawn(script, command, folder)
    }

    fn spawn(name: &'static str, mut command: Command, folder: TempDir) -> Result<Self> {
        let printed = tempfile::tempfile()?;
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(printed.try_clone()?).spawn().with_context(|| format!("starting {name}"))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("{name} has no pipes");
        };
        Ok(Self { name, child, requests, answers: lines(answers), printed, _folder: folder })
    }

    /// Sends a line. A process that died before it read this is reported by `line`.
    pub(super) fn ask(&mut self, request: &Value) {
        let _ = writeln!(self.requests, "{request}");
    }

    /// The next line of its output, for which it has so long; none: as long as it takes.
    pub(super) fn line(&mut self, limit: Option<Duration>) -> Result<String> {
        match limit.map_or_else(|| self.answers.recv().map_err(Into::into), |limit| self.answers.recv_timeout(limit)) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                bail!("{} gave no answer in {} s", self.name, limit.unwrap_or_default().as_secs());
            }
            Err(RecvTimeoutError::Disconnected) => {}
        }
        let status = self.child.wait()?;
        let mut printed = Vec::new();
        self.printed.rewind()?;
        self.printed.read_to_end(&mut printed)?;
        let printed = String::from_utf8_lossy(&printed);
        let printed = printed.trim_end();
        let from =
            (printed.len().saturating_sub(SHOWN)..=printed.len()).find(|at| printed.is_char_boundary(*at)).unwrap_or(0);
        bail!("{} died ({status}); the end of its output:\n{}", self.name, &printed[from..]);
    }
}

/// The lines of an output, as they come.
fn lines(output: ChildStdout) -> Receiver<String> {
    let (told, lines) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = String::new();
            let read = (&mut output).take(LONGEST).read_line(&mut line).unwrap_or(0);
            if read == 0 || told.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The sources, in a folder of their own.
fn sources() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("kernels-against-").tempdir()?;
    for (name, text) in FILES {
        let path = folder.path().join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(folder)
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::FILES;
    use std::path::Path;

    #[test]
    fn every_source_is_carried() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/against/python");
        let mut there: Vec<String> = walkdir::WalkDir::new(&root)
            .into_iter()
            .map(|entry| entry.unwrap().into_path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "py"))
            .map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned())
            .collect();
        there.sort();
        let mut carried: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        carried.sort_unstable();
        assert_eq!(there, carried);
    }
}
