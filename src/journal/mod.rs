//! A run's folder: an append-only journal of events, one JSON object a line, and contents by their SHA-256.
//!
//! `journal.jsonl` is the one source of a run's state. A line is written and synced before what it says is acted on; a last
//! line that a crash has torn is dropped. One process at a time writes, under a lock; readers need none.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::base::{disk, hex};

const JOURNAL: &str = "journal.jsonl";
const BLOBS: &str = "blobs";
/// The kind of the first event, which has the header.
const HEADER: &str = "header";

/// One line of a journal.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Event {
    /// Its number, from 0.
    pub(crate) seq: u64,
    /// When it was written, RFC 3339.
    pub(crate) time: String,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// A journal open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    /// Locked as long as it is open.
    file: File,
    next: u64,
}

impl Journal {
    /// Begins a journal in a folder that has none, and takes its lock.
    pub(crate) fn create(folder: &Path, header: &impl Serialize) -> Result<Self> {
        fs::create_dir_all(folder.join(BLOBS)).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(JOURNAL);
        let file = File::options().append(true).create_new(true).open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                anyhow::anyhow!("{} has a run already: resume it, or name another folder", folder.display())
            }
            _ => anyhow::Error::new(error).context(format!("cannot make {}", path.display())),
        })?;
        lock(&file, folder)?;
        let mut journal = Self { folder: folder.to_owned(), file, next: 0 };
        journal.append(HEADER, header)?;
        disk::sync_folder(folder)?;
        Ok(journal)
    }

    /// Opens a journal to go on with it, and takes its lock. A torn last line is cut off.
    pub(crate) fn open(folder: &Path) -> Result<(Self, Vec<Event>)> {
        let path = folder.join(JOURNAL);
        let file = File::options().append(true).open(&path);
        let file = file.with_context(|| format!("{} is no run: cannot open {}", folder.display(), path.display()))?;
        lock(&file, folder)?;
        let (events, whole) = parse(&path)?;
        file.set_len(whole).with_context(|| format!("cannot cut a torn line off {}", path.display()))?;
        let next = events.last().map_or(0, |event| event.seq + 1);
        Ok((Self { folder: folder.to_owned(), file, next }, events))
    }

    /// The events of a run that another process may be writing.
    pub(crate) fn read(folder: &Path) -> Result<Vec<Event>> {
        Ok(parse(&folder.join(JOURNAL))?.0)
    }

    /// Writes one event, and waits until it is on the disk. Returns its number.
    pub(crate) fn append(&mut self, kind: &str, data: &impl Serialize) -> Result<u64> {
        let seq = self.next;
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let event = Event { seq, time, kind: kind.to_owned(), data: serde_json::to_value(data)? };
        let mut line = serde_json::to_vec(&event)?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("cannot write {}", self.folder.join(JOURNAL).display()))?;
        self.next += 1;
        Ok(seq)
    }

    /// Keeps contents, once, and returns their digest.
    pub(crate) fn put(&self, contents: &[u8]) -> Result<String> {
        let digest = hex(&Sha256::digest(contents));
        let path = blob(&self.folder, &digest);
        if path.exists() {
            return Ok(digest);
        }
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)
            .and_then(|()| disk::write_atomic(&path, contents, 0o444))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(digest)
    }

    /// Contents by their digest, which they must have.
    pub(crate) fn get(folder: &Path, digest: &str) -> Result<Vec<u8>> {
        let path = blob(folder, digest);
        let contents = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if hex(&Sha256::digest(&contents)) != digest {
            bail!("{} was changed: its contents no longer have the digest of its name", path.display());
        }
        Ok(contents)
    }
}

fn blob(folder: &Path, digest: &str) -> PathBuf {
    let (first, rest) = digest.split_at_checked(2).unwrap_or(("", digest));
    folder.join(BLOBS).join(first).join(rest)
}

fn lock(file: &File, folder: &Path) -> Result<()> {
    if let Err(rustix::io::Errno::WOULDBLOCK) = flock(file, FlockOperation::NonBlockingLockExclusive) {
        bail!("another process is writing {}; wait for it, or end it", folder.display());
    }
    Ok(())
}

/// The events of a file, and how many of its bytes they are. A last line without its end is not one.
fn parse(path: &Path) -> Result<(Vec<Event>, u64)> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut events: Vec<Event> = Vec::new();
    let mut whole = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        let event: Event = serde_json::from_slice(line)
            .with_context(|| format!("line {} of {} is not an event", events.len() + 1, path.display()))?;
        if event.seq != events.len() as u64 {
            bail!("line {} of {} has the number {}", events.len() + 1, path.display(), event.seq);
        }
        events.push(event);
        whole += line.len() as u64;
    }
    Ok((events, whole))
}
