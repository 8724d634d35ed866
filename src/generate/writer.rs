//! Who writes the drafts: a command that reads the question and prints the answer. A question is asked once; its answer is kept.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};

use super::draft::MOST_BYTES;
use crate::base::{disk, hex};

pub(crate) struct Writer {
    command: String,
    /// Where the answers of this run are kept.
    folder: PathBuf,
}

impl Writer {
    pub(crate) fn new(command: &str, run: &Path) -> Self {
        Self { command: command.to_owned(), folder: run.join("answers") }
    }

    /// The answer, and whether it was there already.
    pub(super) fn ask(&self, question: &str) -> Result<(String, bool)> {
        let key = hex(&Sha256::digest(question));
        let path = self.folder.join(format!("{key}.md"));
        if path.exists() {
            let kept = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            return Ok((String::from_utf8_lossy(&kept).into_owned(), true));
        }
        let answer = self.run(question)?;
        fs::create_dir_all(&self.folder)
            .and_then(|()| {
                disk::write_atomic(&self.folder.join(format!("{key}.question.md")), question.as_bytes(), 0o600)
            })
            .and_then(|()| disk::write_atomic(&path, answer.as_bytes(), 0o600))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok((answer, false))
    }

    fn run(&self, question: &str) -> Result<String> {
        let failed = || format!("the writer `{}`", self.command);
        let mut command = Command::new("sh");
        command.args(["-c", &self.command]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let asked = question.to_owned();
        // Written beside: a writer may answer before it has read everything.
        let writing = thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(asked.as_bytes())));
        let mut answer = Vec::new();
        let read = stdout.map(|out| out.take(MOST_BYTES as u64 + 1).read_to_end(&mut answer)).transpose();
        if answer.len() > MOST_BYTES {
            let _ = child.kill();
        }
        let status = child.wait().with_context(failed)?;
        let _ = writing.join();
        read.with_context(failed)?;
        if answer.len() <= MOST_BYTES && !status.success() {
            bail!("{} failed ({status}); start the same command again, and it goes on from here", failed());
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}
