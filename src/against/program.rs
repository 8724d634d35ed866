//! The Python process of `--against`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use super::Interpreter;

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("python/", $path)))),*]
    };
}

/// The driver and its package, file by file, without what Python caches beside them.
const FILES: &[(&str, &str)] = files![
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
];

/// How many bytes of its output are shown when it dies.
const SHOWN: usize = 3000;

/// The running process.
#[derive(Debug)]
pub(super) struct Driver {
    child: Child,
    answers: BufReader<ChildStdout>,
    printed: File,
    _folder: TempDir,
}

impl Driver {
    /// Starts it on a request. The Hub library is told to stay offline unless `online`.
    pub(super) fn start(python: &Interpreter, request: &Value, online: bool) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("kernels-against-").tempdir()?;
        for (name, text) in FILES {
            let path = folder.path().join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        let printed = tempfile::tempfile()?;
        let mut command = Command::new(&python.path);
        command
            .arg(folder.path().join("driver.py"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(printed.try_clone()?);
        if !online {
            command.env("HF_HUB_OFFLINE", "1");
        }
        let mut child = command.spawn().with_context(|| format!("starting {}", python.path.display()))?;
        let (Some(mut requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the driver of --against has no pipes");
        };
        // A process that died before it read the request is reported by `line`.
        let _ = writeln!(requests, "{request}");
        Ok(Self { child, answers: BufReader::new(answers), printed, _folder: folder })
    }

    /// The next line of its output.
    pub(super) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line).unwrap_or(0) > 0 {
            return Ok(line);
        }
        let status = self.child.wait()?;
        let mut printed = Vec::new();
        self.printed.rewind()?;
        self.printed.read_to_end(&mut printed)?;
        let printed = String::from_utf8_lossy(&printed);
        let printed = printed.trim_end();
        let from =
            (printed.len().saturating_sub(SHOWN)..=printed.len()).find(|at| printed.is_char_boundary(*at)).unwrap_or(0);
        bail!("the driver of --against died ({status}); the end of its output:\n{}", &printed[from..]);
    }
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
